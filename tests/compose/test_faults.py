"""Containers die, hang and are cut off under numbered acks=all records: nothing that was acknowledged is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.compose.conftest import more, under_load
from tests.compose.stack import Stack

pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]

CUT_OFF = Path(__file__).with_name("cut_off.py").read_text()


def leader_of(stack: Stack, topic: str) -> int:
    found = stack.partition(topic, 0)
    assert found is not None
    return found.leader


def test_a_broker_container_is_killed(started: Stack) -> None:
    with under_load(started) as load:
        old = leader_of(started, load.topic)
        started.container(f"broker-{old}").kill()
        started.led_by_another(load.topic, old)
        more(started, load, 50)


def test_a_broker_that_crashes_is_started_again_by_the_engine(started: Stack) -> None:
    with under_load(started) as load:
        old = leader_of(started, load.topic)
        container = started.container(f"broker-{old}")
        before = container.attrs["State"]["StartedAt"]
        container.exec_run(["sh", "-c", "kill -9 -1"])  # all but the init that waits for it

        def again() -> bool:
            container.reload()
            state = container.attrs["State"]
            return bool(state["Running"] and state["StartedAt"] != before)

        started.until(again, f"broker {old} started again")


def test_a_broker_container_is_paused(started: Stack) -> None:
    with under_load(started) as load:
        old = leader_of(started, load.topic)
        started.container(f"broker-{old}").pause()
        started.led_by_another(load.topic, old)
        more(started, load, 50)


def test_a_leader_that_is_cut_off_from_the_network_acknowledges_nothing(started: Stack) -> None:
    with under_load(started) as load:
        old = leader_of(started, load.topic)
        other = f"broker-{(old + 1) % 3}"
        started.disconnect(f"broker-{old}")
        # From before its session ends until after another leads; none of it may be in the log in the end.
        answers = json.loads(
            started.inside(f"broker-{old}", "python", "-c", CUT_OFF, load.topic, "12").splitlines()[-1]
        )
        assert answers
        assert "none" not in answers
        started.until(lambda: str(old) not in started.znodes("/brokers/ids", other), f"no znode of broker {old}")
        started.led_by_another(load.topic, old)
        more(started, load, 50)


def test_zookeeper_is_cut_off_until_all_sessions_are_over(started: Stack) -> None:
    with under_load(started):
        started.disconnect("zookeeper")

        def nobody() -> bool:
            return "zk_ephemerals_count\t0" in started.asked("zookeeper", "mntr")

        started.until(nobody, "the end of all sessions")


def test_all_is_stopped_and_started_again_on_its_volumes(started: Stack, in_readme: dict[str, str]) -> None:
    with under_load(started, away=True):
        started.run(in_readme["stop"])
        assert started.containers(all=True) == []
        started.run(in_readme["start"])
