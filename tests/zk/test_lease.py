"""A session's lease: what a process may rely on without having heard anything."""

import time
from collections.abc import Callable

import pytest

from kafka_classic.zk.lease import Lease
from kafka_classic.zk.server import EmbeddedZooKeeper
from kafka_classic.zk.session import Session
from tests.zk.breaking import expire, until

Connect = Callable[..., Session]


def held(session: Session) -> Lease:
    lease = Lease(session).start()
    assert session.session_id is not None
    lease.hold(session.session_id)
    return lease


def test_a_lease_is_renewed_while_zookeeper_answers(connect: Connect, hosts: str) -> None:
    session = connect(hosts, timeout_s=2.0)
    lease = held(session)
    first = lease.until
    assert 0 < first - time.monotonic() <= 2.0
    until(session, lambda: lease.until > first, "another answer")


def test_a_lease_runs_out_while_zookeeper_is_silent_and_is_renewed_in_the_same_session(
    connect: Connect, fragile: EmbeddedZooKeeper
) -> None:
    session = connect(fragile.hosts, timeout_s=2.0)
    lease = held(session)
    fragile.pause()
    until(session, lambda: time.monotonic() > lease.until, "the end of the lease")
    before = session.session_id
    fragile.resume()
    until(session, lambda: time.monotonic() < lease.until or session.session_id not in (None, before), "an answer")


def test_what_was_owned_in_an_expired_session_is_never_held_again(connect: Connect, hosts: str) -> None:
    session = connect(hosts, timeout_s=2.0)
    lease = held(session)
    first = session.session_id
    expire(session)
    until(session, lambda: session.session_id not in (None, first), "a new session")
    last = lease.until
    until(session, lambda: time.monotonic() > last, "the end of the lease")
    session.call(session.client.exists_async, "/")  # ZooKeeper answers, but to another session
    assert lease.until == last
    assert session.session_id is not None
    lease.hold(session.session_id)
    assert lease.until > time.monotonic()


def test_nothing_is_held_before_it_is_said(connect: Connect, hosts: str) -> None:
    session = connect(hosts)
    lease = Lease(session).start()
    lease.hold(1)  # some other session
    assert lease.until == 0.0


def test_a_lease_is_no_longer_than_what_zookeeper_grants(connect: Connect, hosts: str) -> None:
    session = connect(hosts, timeout_s=1000.0)
    assert session.granted_s == 120.0  # its maxSessionTimeout
    assert 0 < held(session).until - time.monotonic() <= 120.0


def test_a_closed_session_holds_nothing(connect: Connect, hosts: str) -> None:
    session = connect(hosts)
    lease = held(session)
    session.close()
    assert lease.until == 0.0


def test_without_zookeeper_there_is_no_lease(connect: Connect, fragile: EmbeddedZooKeeper) -> None:
    session = connect(fragile.hosts, timeout_s=2.0)
    fragile.pause()
    with pytest.raises(ConnectionError, match="ZooKeeper"):
        held(session)
