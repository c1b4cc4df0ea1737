"""The fence: closed from the first doubt on, open once the controller has spoken to the registration that stands."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_classic.broker.fence import Fence
from kafka_classic.zk.session import SessionState

PATIENCE_S = 60.0
CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST


class Session:
    """Only says what state it is in."""

    state = CONNECTED
    listener: Callable[[SessionState], None]

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        self.listener = listener

    def becomes(self, *states: SessionState) -> None:
        for state in states:
            self.state = state
            self.listener(state)


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def opened() -> list[bool]:
    return []


@pytest.fixture
def fence(session: Any, opened: list[bool]) -> Fence:
    """Of a broker that is registered, in epoch 10, and was told what it leads."""
    fence = Fence(session, lambda: opened.append(True), PATIENCE_S)
    fence.registered(10)
    fence.recognised(10)
    assert not closed(fence)
    opened.clear()
    return fence


def closed(fence: Fence) -> bool:
    return fence.closed


def test_a_session_that_lives_on_opens_it_again(fence: Fence, session: Session, opened: list[bool]) -> None:
    session.becomes(SUSPENDED)
    assert closed(fence)
    session.becomes(CONNECTED)
    assert not closed(fence)
    assert opened == [True]


@pytest.mark.parametrize("registered_first", [True, False])
def test_a_new_session_opens_it_once_the_controller_has_spoken_to_its_registration(
    fence: Fence, session: Session, opened: list[bool], registered_first: bool
) -> None:
    session.becomes(SUSPENDED, LOST, CONNECTED)
    fence.recognised(10)  # a word that was on its way to the registration before
    assert closed(fence)
    steps: list[Callable[[], None]] = [lambda: fence.registered(20), lambda: fence.recognised(20)]
    first, second = steps if registered_first else steps[::-1]
    first()
    assert closed(fence)
    second()
    assert not closed(fence)
    assert opened == [True]


def test_a_late_word_to_a_registration_that_is_over_opens_nothing(fence: Fence, session: Session) -> None:
    session.becomes(SUSPENDED, LOST, CONNECTED)
    fence.registered(20)
    session.becomes(SUSPENDED, LOST, CONNECTED)
    fence.recognised(20)
    assert closed(fence)
    fence.registered(30)
    assert closed(fence)
    fence.recognised(30)
    assert not closed(fence)


def test_what_opens_it_waits_for_the_connection(fence: Fence, session: Session) -> None:
    session.becomes(SUSPENDED, LOST, CONNECTED)
    fence.registered(20)
    session.becomes(SUSPENDED)
    fence.recognised(20)
    assert closed(fence)
    session.becomes(CONNECTED)
    assert not closed(fence)


@pytest.mark.parametrize(
    ("state", "leading", "silence", "deserted"),
    [
        (SUSPENDED, True, PATIENCE_S + 1, True),
        (SUSPENDED, True, PATIENCE_S / 2, False),  # ZooKeeper is away for everybody: followers follow
        (SUSPENDED, False, PATIENCE_S + 1, False),
        (CONNECTED, True, PATIENCE_S + 1, False),  # a follower is down, and ZooKeeper would tell who leads
    ],
)
def test_a_partition_is_deserted_when_zookeeper_and_a_follower_are_silent(
    fence: Fence, session: Session, state: SessionState, leading: bool, silence: float, deserted: bool
) -> None:
    session.becomes(state)
    partition: Any = SimpleNamespace(leading=leading, silence=lambda now: silence)
    assert fence.deserted(partition) is deserted
