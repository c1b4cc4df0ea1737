"""Topics come, grow and go: what is checked, what is answered, and that nothing of a deleted one is left."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.broker.topics import Topics
from kafka_classic.settings import BrokerSettings
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from kafka_classic.zk.brokers import BrokerInfo
from tests.broker.calls import config, create_partitions, create_topics, delete_topics, metadata, new_topic, topic_id
from tests.broker.conftest import MakeTopic, make_topic
from tests.broker.raw import Raw, batch, fetch, produce


@pytest.fixture
def name() -> str:
    return f"topic-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def one(restartable: LocalCluster) -> Iterator[Raw]:
    """A connection to a broker that creates no topics by itself."""
    with Raw(restartable.brokers[0].address) as connection:
        yield connection


def error_of(raw: Raw, name: str) -> Error:
    return Error(metadata(raw, name).topics[0].error_code)


class TestCreate:
    @pytest.mark.parametrize("version", range(2, 8))
    def test_every_version_creates_and_the_topic_serves_at_once(self, raw: Raw, name: str, version: int) -> None:
        (made,) = create_topics(raw, new_topic(name, 3, configs={"retention.ms": "1000000"}), version=version)
        assert (made.name, made.error_code) == (name, Error.none)
        if version >= 5:
            assert (made.num_partitions, made.replication_factor) == (3, 1)
            settings = {row.name: (row.value, row.config_source) for row in made.configs}
            assert settings["retention.ms"] == ("1000000", 1)
            assert settings["segment.bytes"] == (str(1 << 30), 5)
        if version >= 7:
            assert made.topic_id == topic_id(raw, name)
        for partition in range(3):
            assert produce(raw, name, batch(b"x"), partition=partition) == (0, 0)

    def test_validate_only_answers_alike_and_creates_nothing(self, raw: Raw, name: str) -> None:
        good, bad = new_topic(name, 2), new_topic(name + "x", 0)
        first, second = create_topics(raw, good, bad, dry=True)
        assert (first.error_code, first.num_partitions) == (Error.none, 2)
        assert second.error_code is Error.invalid_partitions
        assert error_of(raw, name) is Error.unknown_topic_or_partition

    def test_the_replicas_of_a_partition_stand_in_different_racks(self) -> None:
        """As far as the brokers name them: the four here stand two and two."""
        brokers = {id: BrokerInfo(id, "h", 9092, rack) for id, rack in enumerate("aabb")}
        settings = BrokerSettings.load({"default.replication.factor": "2", "num.partitions": "8"})
        topics = Topics(SimpleNamespace(settings=settings, view=SimpleNamespace(brokers=brokers)))  # type: ignore[arg-type]
        placed = topics._assignment(-1, -1, {})
        assert len(placed) == 8
        assert all({brokers[id].rack for id in replicas} == {"a", "b"} for replicas in placed.values())

    def test_a_manual_assignment_is_taken_as_it_is(self, three: LocalCluster, name: str) -> None:
        with Raw(three.brokers[1].address) as raw:
            (made,) = create_topics(raw, new_topic(name, assignment=[(0, [2]), (1, [0]), (2, [2])]))
            assert (made.error_code, made.num_partitions) == (Error.none, 3)
            rows = metadata(raw, name).topics[0].partitions
            assert [(p.partition_index, p.leader_id, list(p.replica_nodes)) for p in rows] == [
                (0, 2, [2]),
                (1, 0, [0]),
                (2, 2, [2]),
            ]

    @pytest.mark.parametrize(
        ("assignment", "error"),
        [
            ([(0, [0]), (2, [0])], Error.invalid_replica_assignment),
            ([(1, [0])], Error.invalid_replica_assignment),
            ([(0, [0]), (0, [0])], Error.invalid_replica_assignment),
            ([(0, [99])], Error.invalid_replica_assignment),
            ([(0, [])], Error.invalid_replica_assignment),
            ([(0, [0, 0])], Error.invalid_replica_assignment),
        ],
    )
    def test_a_wrong_assignment_is_refused(
        self, raw: Raw, name: str, assignment: list[tuple[int, list[int]]], error: Error
    ) -> None:
        (made,) = create_topics(raw, new_topic(name, assignment=assignment))
        assert made.error_code is error
        assert made.error_message
        assert error_of(raw, name) is Error.unknown_topic_or_partition

    @pytest.mark.parametrize(
        ("partitions", "factor", "error"),
        [
            (0, 1, Error.invalid_partitions),
            (-2, 1, Error.invalid_partitions),
            (10_001, 1, Error.invalid_partitions),
            (2**31 - 1, 1, Error.invalid_partitions),
            (1, 0, Error.invalid_replication_factor),
            (1, -3, Error.invalid_replication_factor),
            (1, 2, Error.invalid_replication_factor),
        ],
    )
    def test_wrong_counts_are_refused(self, raw: Raw, name: str, partitions: int, factor: int, error: Error) -> None:
        (made,) = create_topics(raw, new_topic(name, partitions, factor))
        assert made.error_code is error
        assert made.error_message

    def test_counts_of_minus_one_mean_the_brokers_defaults(self, three: LocalCluster, name: str) -> None:
        with Raw(three.brokers[0].address) as raw:
            (made,) = create_topics(raw, new_topic(name, -1, -1))
            assert (made.error_code, made.num_partitions, made.replication_factor) == (Error.none, 3, 1)

    @pytest.mark.parametrize(
        ("configs", "hint"),
        [
            ({"retention.msec": "1"}, "retention.ms"),
            ({"retention.ms": "soon"}, "whole number"),
            ({"retention.ms": "-2"}, "-1"),
            ({"cleanup.policy": "burn"}, "delete"),
            ({"compression.type": "rar"}, "zstd"),
            ({"classic": "perhaps"}, "true or false"),
            ({"retention.ms": None}, "no value"),
        ],
    )
    def test_a_wrong_setting_is_refused_with_what_would_be_right(
        self, raw: Raw, name: str, configs: dict[str, str | None], hint: str
    ) -> None:
        (made,) = create_topics(raw, new_topic(name, configs=configs))
        assert made.error_code is Error.invalid_config
        assert hint in made.error_message

    def test_one_of_many_may_fail_alone_and_one_named_twice_fails_twice(self, raw: Raw, name: str) -> None:
        rows = create_topics(raw, new_topic(name), new_topic(name + "2"), new_topic(name), new_topic("../x"))
        assert [(row.name, row.error_code) for row in rows] == [
            (name, Error.invalid_request),
            (name + "2", Error.none),
            (name, Error.invalid_request),
            ("../x", Error.invalid_topic_exception),
        ]
        assert error_of(raw, name) is Error.unknown_topic_or_partition
        assert create_topics(raw, new_topic(name + "2"))[0].error_code is Error.topic_already_exists

    def test_a_creation_that_is_not_waited_for_happens_all_the_same(self, raw: Raw, name: str) -> None:
        (made,) = create_topics(raw, new_topic(name), timeout_ms=0)
        assert made.error_code in (Error.none, Error.request_timed_out)
        until(lambda: error_of(raw, name) is Error.none)
        assert produce(raw, name, batch(b"x"))[0] == 0


class TestGrow:
    @pytest.mark.parametrize("version", range(4))
    def test_new_partitions_serve_at_once_and_the_old_keep_their_data(
        self, raw: Raw, kafka_topic: str, version: int
    ) -> None:
        assert produce(raw, kafka_topic, batch(b"x"))[0] == 0
        assert create_partitions(raw, kafka_topic, 4, version=version).error_code is Error.none
        assert len(metadata(raw, kafka_topic).topics[0].partitions) == 4
        assert produce(raw, kafka_topic, batch(b"y"), partition=3) == (0, 0)
        assert produce(raw, kafka_topic, batch(b"z")) == (0, 1)

    def test_what_cannot_be_is_refused(self, raw: Raw, kafka_topic: str) -> None:
        assert create_partitions(raw, "no-such-topic", 2).error_code is Error.unknown_topic_or_partition
        for count in (1, 0, -1, 10_001):
            assert create_partitions(raw, kafka_topic, count).error_code is Error.invalid_partitions
        for assignment in ([[0]], [[0], [99]], [[0], []], [[0], [0, 0]]):
            refused = create_partitions(raw, kafka_topic, 3, assignment)
            assert refused.error_code is Error.invalid_replica_assignment
        assert create_partitions(raw, kafka_topic, 3, [[0], [0]], dry=True).error_code is Error.none
        assert len(metadata(raw, kafka_topic).topics[0].partitions) == 1

    def test_an_assignment_says_where_they_go(self, three: LocalCluster) -> None:
        address = three.brokers[0].address
        name = make_topic(address)
        with Raw(address) as raw:
            assert create_partitions(raw, name, 3, [[2], [1]]).error_code is Error.none
            assert [p.leader_id for p in metadata(raw, name).topics[0].partitions][1:] == [2, 1]


class TestDelete:
    @pytest.mark.parametrize("version", range(1, 7))
    def test_by_name_in_every_version(
        self, raw: Raw, topic_with: MakeTopic, kafka_cluster: LocalCluster, version: int
    ) -> None:
        topic = topic_with(2)
        (gone, unknown) = delete_topics(raw, topic, "no-such-topic", version=version)
        assert (gone.error_code, unknown.error_code) == (Error.none, Error.unknown_topic_or_partition)
        assert error_of(raw, topic) is Error.unknown_topic_or_partition
        assert produce(raw, topic, batch(b"x"))[0] == Error.unknown_topic_or_partition.value
        folder = kafka_cluster.brokers[0].data_dir
        assert not [p for p in folder.iterdir() if p.name.startswith(topic) and not p.name.endswith("-delete")]

    def test_its_files_go_with_the_next_checkpoint(self, one: Raw, restartable: LocalCluster) -> None:
        topic = make_topic(one.address, 2)
        assert produce(one, topic, batch(b"x"))[0] == 0
        assert delete_topics(one, topic)[0].error_code is Error.none
        folder = restartable.brokers[0].data_dir
        until(lambda: not [p for p in folder.iterdir() if p.name.startswith(topic)])

    def test_by_id(self, raw: Raw, topic_with: MakeTopic) -> None:
        topic = topic_with()
        known = topic_id(raw, topic)
        gone, unknown = delete_topics(raw, known, uuid.uuid4())
        assert (gone.error_code, gone.name, gone.topic_id) == (Error.none, topic, known)
        assert unknown.error_code is Error.unknown_topic_id
        assert metadata(raw, known).topics[0].error_code is Error.unknown_topic_id

    def test_recreated_at_once_it_has_another_id_other_settings_and_no_old_data(
        self, raw: Raw, topic_with: MakeTopic
    ) -> None:
        topic = topic_with(2, configs={"retention.ms": "123456", "classic": "true"})
        ids = {topic_id(raw, topic)}
        for round_ in range(5):
            assert produce(raw, topic, batch(b"old"))[0] == 0
            assert delete_topics(raw, topic)[0].error_code is Error.none
            (made,) = create_topics(raw, new_topic(topic, configs={"retention.ms": str(1_000_000 + round_)}))
            assert made.error_code is Error.none
            ids.add(made.topic_id)
            assert fetch(raw, topic, 0) == (0, 0, b"")
            assert config(raw, topic, "retention.ms").value == str(1_000_000 + round_)
            assert config(raw, topic, "classic").value == "false"
        assert len(ids) == 6
        assert len(metadata(raw, topic).topics[0].partitions) == 1

    def test_recreated_while_a_broker_looked_away_it_forgets_the_old_one(self, three: LocalCluster) -> None:
        """It hears of both changes at once, and never sees that the topic was away."""
        asleep = three.brokers[1]
        with Raw(three.brokers[0].address) as first, Raw(asleep.address) as second:
            name = make_topic(first.address, assignment=[(0, [1])], configs={"segment.bytes": "1000"})
            for round_ in range(3):
                until(lambda: produce(second, name, batch(b"old"))[0] == 0)
                asleep.pause()
                assert delete_topics(first, name)[0].error_code is Error.none
                fresh = new_topic(name, assignment=[(0, [1])], configs={"segment.bytes": str(2000 + round_)})
                (made,) = create_topics(first, fresh)
                asleep.resume()
                if made.error_code is Error.invalid_replica_assignment:
                    # Its session ended meanwhile, on a busy machine: no topic is placed on a broker that is gone.
                    until(lambda fresh=fresh: create_topics(first, fresh)[0].error_code is Error.none)  # type: ignore[misc]
                    continue
                assert made.error_code is Error.none
                until(lambda made=made: metadata(second, name).topics[0].topic_id == made.topic_id)  # type: ignore[misc]
                assert fetch(second, name, 0) == (0, 0, b"")
                assert config(second, name, "segment.bytes").value == str(2000 + round_)

    def test_a_deletion_that_is_not_waited_for_happens_all_the_same(self, raw: Raw, topic_with: MakeTopic) -> None:
        topic = topic_with()
        (gone,) = delete_topics(raw, topic, timeout_ms=0)
        assert gone.error_code in (Error.none, Error.request_timed_out)
        until(lambda: error_of(raw, topic) is Error.unknown_topic_or_partition)


class TestAutoCreation:
    def test_asking_for_a_topic_by_name_creates_it(self, raw: Raw, name: str) -> None:
        assert metadata(raw, name, create=False).topics[0].error_code is Error.unknown_topic_or_partition
        (found,) = metadata(raw, name, create=True).topics
        assert (found.error_code, len(found.partitions)) == (Error.none, 1)
        assert found.partitions[0].leader_id == 0
        assert produce(raw, name, batch(b"x")) == (0, 0)

    @pytest.mark.parametrize("version", range(14))
    def test_in_every_version_of_metadata(self, raw: Raw, name: str, version: int) -> None:
        answer = metadata(raw, name, version=version, create=True)
        assert [(str(t.name), t.error_code) for t in answer.topics] == [(name, Error.none)]
        assert [(b.node_id, b.host) for b in answer.brokers] == [(0, "127.0.0.1")]
        assert produce(raw, name, batch(b"x"))[0] == 0

    def test_a_name_that_cannot_be_is_never_created(self, raw: Raw) -> None:
        for bad in ("a b", "..", "x" * 250):
            assert metadata(raw, bad, create=True).topics[0].error_code is Error.invalid_topic_exception

    def test_turned_off_nothing_is_created(self, one: Raw, name: str) -> None:
        for version in (0, 1, 4, 9, 13):
            (found,) = metadata(one, name, version=version, create=True).topics
            assert found.error_code is Error.unknown_topic_or_partition

    def test_neither_produce_nor_fetch_create_a_topic(self, raw: Raw, name: str) -> None:
        assert produce(raw, name, batch(b"x"))[0] == Error.unknown_topic_or_partition.value
        assert fetch(raw, name, 0)[0] == Error.unknown_topic_or_partition.value
        assert error_of(raw, name) is Error.unknown_topic_or_partition

    def test_many_who_ask_at_once_get_one_topic(self, three: LocalCluster, name: str) -> None:
        from kafka_classic.wire.apis import Api
        from kafka_classic.wire.bodies import read_response, write_request
        from tests.broker.calls import METADATA
        from tests.broker.raw import CLIENT

        topics = (METADATA.MetadataRequestTopic(topic_id=None, name=name),)
        body = METADATA.MetadataRequest(topics=topics, include_topic_authorized_operations=False)
        raws = [Raw(broker.address) for broker in three.brokers for _ in range(5)]
        for asking in raws:
            asking.send(write_request(Api.METADATA, 12, 7, CLIENT, body))
        ids = set()
        for asking in raws:
            (found,) = read_response(Api.METADATA, 12, asking.frame())[1].topics
            assert found.error_code in (Error.none, Error.leader_not_available)
            ids.add(found.topic_id)
            asking.sock.close()
        assert len(ids - {None}) == 1
