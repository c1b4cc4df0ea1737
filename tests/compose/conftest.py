"""A cluster in containers, started as the README says; skipped with a plain message where no engine answers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import docker
import pytest
from docker.errors import DockerException

from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.testing.checker import Load, judge
from tests.compose.stack import BROKERS, ROOT, Stack, compose_command
from tests.repo.test_documents import blocks, commands

MARK = "<!-- not run by the tests: run by tests/compose -->"
PARTITIONS = 3
BEFORE, AFTER = 100, 100  # acknowledged records before the fault and after it was mended


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        pytest.skip(f"no Docker engine answers: {error}")
    if compose_command() is None:
        client.close()
        pytest.skip("a Docker engine answers, but neither `docker compose` nor `docker-compose` is installed")
    yield client
    client.close()


@pytest.fixture(scope="session")
def in_readme() -> dict[str, str]:
    """The README's commands for the containers, by what they do."""
    lines = (ROOT / "README.md").read_text().splitlines()
    at = lines.index(MARK) + 1
    (block,) = [one for one in blocks("\n".join(lines)) if one.line == at + 1]
    found = dict(zip(("start", "watch", "stop"), commands(block), strict=True))
    assert " up " in found["start"]
    assert " status " in found["watch"]
    assert " down" in found["stop"]
    return found


@contextmanager
def running(engine: docker.DockerClient, start: str) -> Iterator[Stack]:
    """A stack that was started by this command and is whole; removed at the end, whatever happened."""
    compose = compose_command()
    assert compose is not None
    stack = Stack(engine, compose)
    try:
        stack.run(start)
        stack.until(stack.whole, "three brokers that know each other")
        yield stack
    finally:
        stack.remove()


@pytest.fixture(scope="session")
def started(engine: docker.DockerClient, in_readme: dict[str, str]) -> Iterator[Stack]:
    with running(engine, in_readme["start"]) as stack:
        yield stack


@contextmanager
def under_load(stack: Stack, *, away: bool = False) -> Iterator[Load]:
    """Numbered records by producers that wait for all replicas; at the end all that they were told is checked.

    While the whole cluster is `away`, a producer may give records up when its delivery timeout is over: how long that
    takes is the machine's affair. It was told so, and what it was told to be there must be there all the same.
    """
    topic = f"numbered-{uuid.uuid4().hex[:8]}"
    with Cluster(stack.bootstrap) as client:
        create_topics(client, [NewTopic(topic, PARTITIONS, BROKERS, {})])
    stack.until(lambda: stack.whole(topic), f"{topic} whole")
    load = Load(stack.bootstrap, topic, PARTITIONS, idempotent=True).start()
    try:
        more(stack, load, BEFORE)
        yield load
        stack.mend()
        more(stack, load, AFTER)
        stack.until(lambda: stack.whole(topic), f"{topic} whole again")
    finally:
        stack.mend()  # what fails here must not fail what comes after it
        load.stop()
    verdict = judge(load.history())
    assert verdict.kept, verdict
    assert away or not verdict.unknown, verdict
    assert verdict.acknowledged >= BEFORE + AFTER


def more(stack: Stack, load: Load, count: int) -> None:
    wanted = load.acknowledged + count
    stack.until(lambda: load.acknowledged >= wanted, f"{count} more acknowledged records of {load.topic}")
