"""The topic registry: whole topics or none, and a watch that misses nothing."""

import json
import threading
import uuid
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import pytest
from kazoo.exceptions import NoNodeError

from kafka_classic.zk import topics as topics_module
from kafka_classic.zk.configs import ConfigRegistry
from kafka_classic.zk.errors import TopicExists, UnknownTopic, VersionConflict
from kafka_classic.zk.handlers import HandlerName
from kafka_classic.zk.partitions import PartitionState, PartitionStates
from kafka_classic.zk.server import EmbeddedZooKeeper
from kafka_classic.zk.session import Session
from kafka_classic.zk.topics import TopicInfo, TopicRegistry, decode_uuid, encode_uuid
from kafka_classic.zk.znodes import Operation, Znodes
from tests.zk.breaking import expire, until

Connect = Callable[..., Session]
ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
NEXT_ID = UUID("ffeeddcc-bbaa-9988-7766-554433221100")


def test_a_created_topic_is_kept_in_kafkas_json_with_its_config(session: Session) -> None:
    topics = TopicRegistry(session)
    created = topics.create("views", {1: [2, 3], 0: [1, 2]}, {"retention.ms": "5"}, ID)
    assert topics.get("views") == created == TopicInfo("views", ID, {0: (1, 2), 1: (2, 3)})
    assert topics.all() == {"views": created}
    assert ConfigRegistry(session).get("topics", "views").values == {"retention.ms": "5"}
    node = Znodes(session).get("/brokers/topics/views")
    assert node is not None
    assert json.loads(node.data) == {
        "version": 3,
        "partitions": {"0": [1, 2], "1": [2, 3]},
        "adding_replicas": {},
        "removing_replicas": {},
        "topic_id": "ABEiM0RVZneImaq7zN3u_w",
    }


def test_a_topic_id_is_written_as_kafka_writes_it() -> None:
    assert decode_uuid(encode_uuid(ID)) == ID
    assert len(encode_uuid(uuid.uuid4())) == 22


def test_an_older_kafkas_topic_without_an_id_is_read(session: Session) -> None:
    Znodes(session).create("/brokers/topics/old", b'{"version":1,"partitions":{"0":[1]}}')
    assert TopicRegistry(session).all() == {"old": TopicInfo("old", UUID(int=0), {0: (1,)})}


def test_a_topic_that_exists_is_not_created_twice_and_keeps_its_config(session: Session) -> None:
    topics = TopicRegistry(session)
    topics.create("t", {0: [1]}, {"a": "1"}, ID)
    with pytest.raises(TopicExists, match="topic 't' exists already"):
        topics.create("t", {0: [2]}, {"a": "2"}, uuid.uuid4())
    assert ConfigRegistry(session).get("topics", "t").values == {"a": "1"}
    # The same topic id is the same request, tried again after its answer was lost.
    assert topics.create("t", {0: [1]}, {"a": "1"}, ID).topic_id == ID


def test_a_config_that_an_interrupted_tool_left_behind_does_not_stand_in_the_way(session: Session) -> None:
    Znodes(session).create("/config/topics/t", b'{"version":1,"config":{"stale":"1"}}')
    TopicRegistry(session).create("t", {0: [1]}, {}, ID)
    assert ConfigRegistry(session).get("topics", "t").values == {}


def test_of_many_who_create_the_same_topic_exactly_one_does(connect: Connect, hosts: str) -> None:
    won: list[UUID] = []

    def create() -> None:
        try:
            won.append(TopicRegistry(connect(hosts)).create("t", {0: [1]}, {}, uuid.uuid4()).topic_id)
        except TopicExists:
            pass

    threads = [threading.Thread(target=create) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    topic = TopicRegistry(connect(hosts)).get("t")
    assert topic is not None
    assert won == [topic.topic_id]


def test_partitions_are_added_to_the_topic_as_it_was_read_and_to_no_other(session: Session) -> None:
    topics = TopicRegistry(session)
    topics.create("t", {0: [1]}, {}, ID)
    grown = topics.add_partitions("t", {1: [2], 2: [3]}, 0)
    assert grown == topics.get("t") == TopicInfo("t", ID, {0: (1,), 1: (2,), 2: (3,)}, version=1)
    with pytest.raises(VersionConflict, match="read it again"):
        topics.add_partitions("t", {3: [1]}, 0)
    with pytest.raises(ValueError, match="new ones follow from 3 without a gap"):
        topics.add_partitions("t", {4: [1]}, 1)
    with pytest.raises(UnknownTopic):
        topics.add_partitions("absent", {0: [1]}, 0)


def test_an_assignment_is_written_over_the_version_it_was_made_from(session: Session) -> None:
    topics = TopicRegistry(session)
    topics.create("t", {0: [1]}, {}, ID)
    moving = TopicInfo("t", ID, {0: (1, 2)}, 0, adding={0: (2,)})
    assert topics.set_assignment(moving) == topics.get("t")
    # Just this value at the next version: our own first try, whose answer was lost.
    assert topics.set_assignment(moving).version == 1
    with pytest.raises(VersionConflict):
        topics.set_assignment(TopicInfo("t", ID, {0: (9,)}, 0))
    with pytest.raises(UnknownTopic):
        topics.set_assignment(TopicInfo("absent", ID, {0: (9,)}, 0))


def test_a_deleted_topic_leaves_nothing_and_deleting_may_be_repeated(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics_module, "LARGEST_TRANSACTION", 7)  # as of a topic with thousands of partitions
    topics, states = TopicRegistry(session), PartitionStates(session)
    for name in ("t", "stays"):
        topics.create(name, {p: [1] for p in range(5)}, {"a": "1"}, uuid.uuid4())
        states.create_many({(name, p): PartitionState(1, 0, (1,), 1) for p in range(5)})
    assert topics.delete("t")
    assert Znodes(session).subtree("/brokers/topics/t") == []
    assert not Znodes(session).exists("/config/topics/t")
    assert not topics.delete("t")
    assert list(topics.all()) == ["stays"]
    assert len(Znodes(session).subtree("/brokers/topics/stays")) == 12


def test_a_topic_that_is_made_anew_at_once_outlives_the_deletion_of_the_one_before(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = TopicRegistry(session)
    topics.create("t", {0: [1]}, {}, ID)
    transact = Znodes.transact
    answers_lost = [True, False]

    def quick(nodes: Znodes, operations: Iterable[Operation]) -> list[Any]:
        results = transact(nodes, operations)
        monkeypatch.setattr(Znodes, "transact", transact)
        topics.create("t", {0: [2]}, {"a": "1"}, NEXT_ID)
        if answers_lost.pop():
            raise NoNodeError  # what a second try of it would find
        return results

    while answers_lost:
        monkeypatch.setattr(Znodes, "transact", quick)
        assert topics.delete("t")
        assert topics.all() == {"t": TopicInfo("t", NEXT_ID, {0: (2,)})}
        assert ConfigRegistry(session).get("topics", "t").values == {"a": "1"}


def test_a_half_deleted_topic_is_deleted_wholly(session: Session) -> None:
    topics = TopicRegistry(session)
    topics.create("t", {0: [1]}, {}, ID)
    Znodes(session).delete("/brokers/topics/t")
    assert not topics.delete("t")
    assert not Znodes(session).exists("/config/topics/t")


def test_a_watch_sees_topics_come_change_and_go(session: Session, connect: Connect, hosts: str) -> None:
    seen: list[dict[str, int]] = []
    watch = TopicRegistry(session).watch(lambda found: seen.append({n: len(t.assignment) for n, t in found.items()}))
    assert seen == [{}]
    topics = TopicRegistry(connect(hosts))

    def sees(expected: dict[str, int]) -> None:
        until(session, lambda: seen[-1] == expected, str(expected))

    topics.create("a", {0: [1]}, {}, ID)
    sees({"a": 1})
    topics.add_partitions("a", {1: [1]}, 0)
    sees({"a": 2})
    topics.create("b", {0: [1]}, {}, uuid.uuid4())
    sees({"a": 2, "b": 1})
    topics.delete("a")
    sees({"b": 1})
    assert len(seen) == 5
    watch.stop()
    topics.delete("b")
    told: list[object] = []
    TopicRegistry(session).watch(told.append)
    assert told == [{}]
    assert len(seen) == 5


def test_a_watch_tells_the_last_state_of_200_rapid_changes_and_never_goes_back(
    session: Session, connect: Connect, hosts: str
) -> None:
    topics = TopicRegistry(connect(hosts))
    topics.create("t", {0: [1]}, {}, ID)
    seen: list[int] = []
    slow = session.handler.event_object()

    def tell(found: dict[str, TopicInfo]) -> None:
        seen.append(found["t"].version)
        slow.wait(0.005)  # changes go on while a callback takes its time

    TopicRegistry(session).watch(tell)
    info = topics.get("t")
    assert info is not None
    done: list[int] = []

    def change() -> None:
        at: TopicInfo = info
        for n in range(200):
            at = topics.set_assignment(TopicInfo("t", ID, {0: (n,)}, at.version))
        done.append(at.version)

    thread = threading.Thread(target=change)
    thread.start()
    until(session, lambda: done)
    thread.join()
    until(session, lambda: seen[-1] == 200)
    assert seen == sorted(set(seen))


def test_a_topic_made_anew_under_the_same_name_is_seen_by_its_new_id(
    session: Session, connect: Connect, hosts: str
) -> None:
    topics = TopicRegistry(connect(hosts))
    topics.create("t", {0: [1]}, {}, ID)
    seen: list[UUID | None] = []
    TopicRegistry(session).watch(lambda found: seen.append(found["t"].topic_id if "t" in found else None))
    for _ in range(30):
        topics.delete("t")
        last = uuid.uuid4()
        topics.create("t", {0: [1]}, {}, last)
    until(session, lambda: seen[-1] == last)


def test_a_watch_lives_on_in_the_next_session(session: Session, connect: Connect, hosts: str) -> None:
    seen: list[set[str]] = []
    TopicRegistry(session).watch(lambda found: seen.append(set(found)))
    topics = TopicRegistry(connect(hosts))
    expire(session)
    topics.create("after", {0: [1]}, {}, ID)
    until(session, lambda: seen[-1] == {"after"})
    topics.delete("after")
    until(session, lambda: seen[-1] == set())


def test_a_watch_tells_what_changed_while_zookeeper_was_away(
    connect: Connect, fragile: EmbeddedZooKeeper, handler: HandlerName
) -> None:
    session = connect(f"{fragile.hosts}/away-{handler}", handler, timeout_s=60.0)
    seen: list[set[str]] = []
    TopicRegistry(session).watch(lambda found: seen.append(set(found)))
    fragile.kill()
    fragile.start()
    TopicRegistry(connect(f"{fragile.hosts}/away-{handler}")).create("t", {0: [1]}, {}, ID)
    until(session, lambda: seen[-1] == {"t"})


def test_a_callback_that_fails_is_called_again_at_the_next_change(session: Session) -> None:
    topics = TopicRegistry(session)
    seen: list[set[str]] = []

    def tell(found: dict[str, TopicInfo]) -> None:
        seen.append(set(found))
        if len(seen) == 1:
            raise RuntimeError("on purpose")
        topics.get("t")  # a callback may call ZooKeeper

    topics.watch(tell)
    topics.create("t", {0: [1]}, {}, ID)
    until(session, lambda: seen == [set(), {"t"}])


def test_a_thousand_topics_are_loaded_and_watched(connect: Connect, hosts: str, handler: HandlerName) -> None:
    session = connect(hosts, handler, timeout_s=30.0)
    topics = TopicRegistry(session)
    info = TopicInfo("", ID, {0: (1,)})
    znodes = Znodes(session)
    znodes.ensure("/brokers/topics")
    znodes.create_many({f"/brokers/topics/t{n}": info.to_json() for n in range(1000)})
    seen: list[dict[str, TopicInfo]] = []
    topics.watch(seen.append)
    assert len(seen[0]) == 1000
    topics.add_partitions("t777", {1: [2]}, 0)
    until(session, lambda: seen[-1]["t777"].version == 1)
    assert seen[-1].keys() == seen[0].keys()
