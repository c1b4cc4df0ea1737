"""The broker registry (P15, P16)."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from kafka_classic.zk import brokers as brokers_module
from kafka_classic.zk.brokers import BrokerInfo, BrokerRegistry
from kafka_classic.zk.errors import BrokerIdTaken
from kafka_classic.zk.handlers import HandlerName
from kafka_classic.zk.session import Session
from kafka_classic.zk.znodes import Znodes
from tests.zk.breaking import expire, until

Connect = Callable[..., Session]


def test_a_registered_broker_is_seen_by_all_in_kafkas_json(session: Session, connect: Connect, hosts: str) -> None:
    info = BrokerRegistry(session, clock=lambda: 12.5).register(BrokerInfo(3, "example.org", 9094, rack="r1"))
    assert BrokerRegistry(connect(hosts)).live() == {3: info}
    assert info.epoch > 0
    node = Znodes(session).get("/brokers/ids/3")
    assert node is not None
    assert node.owner == session.session_id
    assert json.loads(node.data) == {
        "version": 5,
        "host": "example.org",
        "port": 9094,
        "jmx_port": -1,
        "timestamp": "12500",
        "endpoints": ["PLAINTEXT://example.org:9094"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "features": {},
        "rack": "r1",
    }


def test_no_brokers_are_live_in_an_empty_zookeeper(session: Session) -> None:
    assert BrokerRegistry(session).live() == {}


def test_a_second_broker_with_the_same_id_is_refused(session: Session, connect: Connect, hosts: str) -> None:
    BrokerRegistry(session).register(BrokerInfo(1, "h", 9092))
    with pytest.raises(BrokerIdTaken) as refused:
        BrokerRegistry(connect(hosts)).register(BrokerInfo(1, "h", 9093))
    assert str(refused.value) == ("broker id 1 is taken by h:9092; choose another broker.id or stop that broker")


def test_registering_again_in_the_same_session_changes_what_is_said(session: Session) -> None:
    registry = BrokerRegistry(session)
    first = registry.register(BrokerInfo(1, "h", 9092))
    second = registry.register(BrokerInfo(1, "h", 9093))
    assert first.epoch == second.epoch
    assert registry.live() == {1: second}


def test_a_broker_waits_for_the_znode_of_its_own_earlier_life(connect: Connect, session: Session, hosts: str) -> None:
    old = connect(hosts)
    before = BrokerRegistry(old).register(BrokerInfo(1, "h", 9092))
    done: list[BrokerInfo] = []
    session.handler.spawn(lambda: done.append(BrokerRegistry(session).register(BrokerInfo(1, "h", 9092))))
    # It watches the old znode before it waits: seen on the server, no sleep needed.
    until(session, lambda: session.client._data_watchers)
    assert not done
    old.close()
    until(session, lambda: done)
    assert done[0].epoch > before.epoch


def test_a_znode_that_looks_like_ones_own_but_never_goes_is_refused_in_the_end(
    connect: Connect, hosts: str, handler: HandlerName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers_module, "EXPIRY_SLACK_S", 0.0)
    BrokerRegistry(connect(hosts)).register(BrokerInfo(1, "h", 9092))
    with pytest.raises(BrokerIdTaken, match="is taken by h:9092"):
        BrokerRegistry(connect(hosts, handler, timeout_s=1.0)).register(BrokerInfo(1, "h", 9092))


def test_a_broker_that_holds_its_address_replaces_the_znode_of_its_earlier_life(
    connect: Connect, session: Session, hosts: str
) -> None:
    earlier = BrokerRegistry(connect(hosts, timeout_s=60.0))
    first = earlier.register(BrokerInfo(id=1, host="h", port=9092))
    again = BrokerRegistry(session).register(BrokerInfo(id=1, host="h", port=9092), holds_address=True)
    assert again.epoch > first.epoch
    with pytest.raises(BrokerIdTaken):
        BrokerRegistry(connect(hosts)).register(BrokerInfo(id=1, host="h", port=9093), holds_address=True)


def test_an_expired_broker_registers_again_by_itself(session: Session, connect: Connect, hosts: str) -> None:
    again: list[BrokerInfo] = []
    registry = BrokerRegistry(session)
    first = registry.register(BrokerInfo(1, "h", 9092), registered_again=again.append)
    expire(session)
    until(session, lambda: len(again) == 1)
    expire(session)
    until(session, lambda: len(again) == 2)
    assert again[1].epoch > again[0].epoch > first.epoch
    assert BrokerRegistry(connect(hosts)).live() == {1: again[1]}


def test_an_expired_broker_whose_id_was_taken_is_told(session: Session, connect: Connect, hosts: str) -> None:
    refused: list[BrokerIdTaken] = []
    registry = BrokerRegistry(session)
    registry.register(BrokerInfo(1, "h", 9092), refused=refused.append)
    other = connect(hosts)
    znodes = Znodes(other)
    znodes.delete("/brokers/ids/1")
    BrokerRegistry(other).register(BrokerInfo(1, "elsewhere", 9092))
    expire(session)
    until(session, lambda: refused)
    assert "is taken by elsewhere:9092" in str(refused[0])


def test_an_unregistered_broker_is_gone_and_stays_so(session: Session) -> None:
    registry = BrokerRegistry(session)
    registry.register(BrokerInfo(1, "h", 9092))
    registry.unregister()
    assert registry.live() == {}
    renewed: list[int] = []
    session.on_renewal(lambda: renewed.append(1))
    expire(session)
    until(session, lambda: renewed)
    assert registry.live() == {}


def test_watchers_see_brokers_come_and_go(session: Session, connect: Connect, hosts: str) -> None:
    seen: list[list[int]] = []
    BrokerRegistry(session).watch(lambda brokers: seen.append(sorted(brokers)))
    assert seen == [[]]
    first, second = connect(hosts), connect(hosts)
    BrokerRegistry(first).register(BrokerInfo(1, "h", 9092))
    until(session, lambda: seen[-1] == [1])
    BrokerRegistry(second).register(BrokerInfo(2, "h", 9093))
    until(session, lambda: seen[-1] == [1, 2])
    first.close()
    until(session, lambda: seen[-1] == [2])
    assert seen == [[], [1], [1, 2], [2]]


def test_a_broker_that_leaves_and_returns_between_two_looks_is_seen_by_its_new_epoch(
    session: Session, connect: Connect, hosts: str
) -> None:
    other = connect(hosts)
    registry = BrokerRegistry(other)
    registry.register(BrokerInfo(1, "h", 9092))
    epochs: list[int] = []
    BrokerRegistry(session).watch(lambda brokers: epochs.extend(b.epoch for b in brokers.values()))
    for _ in range(20):
        registry.unregister()
        last = registry.register(BrokerInfo(1, "h", 9092))
    until(session, lambda: epochs[-1] == last.epoch)
    assert epochs == sorted(epochs)


REGISTER = """
import sys
from kafka_classic.zk.brokers import BrokerInfo, BrokerRegistry
from kafka_classic.zk.session import Session
BrokerRegistry(Session(sys.argv[1], timeout_s=1.0).start(30)).register(BrokerInfo(7, "h", 9092))
print("registered", flush=True)
sys.stdin.read()
"""


def test_a_killed_brokers_registration_vanishes(session: Session, hosts: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", REGISTER, hosts], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline() == b"registered\n"
    seen: list[list[int]] = []
    BrokerRegistry(session).watch(lambda brokers: seen.append(sorted(brokers)))
    assert seen == [[7]]
    child.kill()
    child.wait()
    until(session, lambda: seen == [[7], []])
    child.stdin.close()
    child.stdout.close()
