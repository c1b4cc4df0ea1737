"""What a broker says of itself and its cluster: ApiVersions, DescribeCluster, DescribeLogDirs, producer ids."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.wire.apis import SERVED, Api
from tests.broker.calls import (
    api_versions,
    create_partitions,
    describe_cluster,
    describe_log_dirs,
    init_producer_id,
    metadata,
)
from tests.broker.raw import Raw, batch, produce


class TestApiVersions:
    @pytest.mark.parametrize("version", range(5))
    def test_every_version_lists_what_is_served(self, raw: Raw, version: int) -> None:
        answer = api_versions(raw, version=version)
        assert answer.error_code is Error.none
        told = {int(row.api_key): (int(row.min_version), int(row.max_version)) for row in answer.api_keys}
        assert told.keys() == set(map(int, SERVED))
        for api, (low, high) in SERVED.items():
            # librdkafka looks for Produce 0 before it trusts a broker with anything.
            assert told[api] == ((0, high) if api is Api.PRODUCE else (low, high))

    @pytest.mark.parametrize("name", ["", " ", "-x", "a b", "ü"])
    def test_a_client_that_misnames_itself_is_told(self, raw: Raw, name: str) -> None:
        expected = Error.none if not name else Error.invalid_request
        assert api_versions(raw, version=3, software=name).error_code is expected
        assert api_versions(raw, version=3).error_code is Error.none


class TestDescribeCluster:
    @pytest.mark.parametrize("version", range(3))
    def test_every_version_names_the_brokers_and_the_cluster(self, three: LocalCluster, version: int) -> None:
        told = []
        for broker in three.brokers:
            with Raw(broker.address) as raw:
                answer = describe_cluster(raw, version=version)
                assert answer.error_code is Error.none
                assert answer.cluster_id == metadata(raw).cluster_id
                assert answer.controller_id == metadata(raw).controller_id
                told.append([(b.broker_id, f"{b.host}:{b.port}") for b in answer.brokers])
        assert told == [[(broker.id, broker.address) for broker in three.brokers]] * 3

    def test_there_are_no_controllers_to_be_told_apart(self, raw: Raw) -> None:
        assert describe_cluster(raw, endpoint_type=2).error_code is Error.unsupported_endpoint_type


class TestLogDirs:
    @pytest.mark.parametrize("version", range(1, 6))
    def test_every_version_tells_the_size_of_each_partition(
        self, raw: Raw, kafka_topic: str, kafka_cluster: LocalCluster, version: int
    ) -> None:
        assert create_partitions(raw, kafka_topic, 2).error_code is Error.none
        one = batch(b"v" * 1000)
        for _ in range(3):
            assert produce(raw, kafka_topic, one, partition=1)[0] == 0
        (folder,) = describe_log_dirs(raw, {kafka_topic: [0, 1, 7]}, version=version).results
        assert folder.error_code is Error.none
        assert folder.log_dir == str(kafka_cluster.brokers[0].data_dir)
        (topic,) = folder.topics
        sizes = {int(p.partition_index): int(p.partition_size) for p in topic.partitions}
        assert sizes == {0: 0, 1: 3 * len(one)}
        if version >= 4:
            assert folder.total_bytes >= folder.usable_bytes > 0

    def test_without_a_choice_all_topics_come(self, raw: Raw, kafka_topic: str) -> None:
        (folder,) = describe_log_dirs(raw).results
        assert kafka_topic in {str(topic.name) for topic in folder.topics}
        (none,) = describe_log_dirs(raw, {}).results
        assert none.topics == ()


class TestProducerIds:
    @pytest.mark.parametrize("version", range(6))
    def test_every_version_gives_an_id_of_its_own(self, raw: Raw, version: int) -> None:
        answers = [init_producer_id(raw, version=version) for _ in range(3)]
        assert {(a.error_code, int(a.producer_epoch)) for a in answers} == {(Error.none, 0)}
        assert len({int(a.producer_id) for a in answers}) == 3

    def test_no_two_brokers_give_the_same_and_no_restart_gives_one_again(self, three: LocalCluster) -> None:
        """Each broker takes ids in blocks of a thousand; more than a block is asked for here."""
        given: list[int] = []
        for round_ in range(2):
            for broker in three.brokers:
                with Raw(broker.address) as raw:
                    given += [int(init_producer_id(raw).producer_id) for _ in range(1100 if broker.id == 0 else 10)]
            if not round_:
                three.brokers[0].restart()
                three.brokers[1].kill()
                three.brokers[1].start()
                three.wait_ready()
        assert len(set(given)) == len(given)

    def test_transactions_are_refused_plainly(self, raw: Raw) -> None:
        answer = init_producer_id(raw, transactional_id="t")
        assert answer.error_code is Error.transactional_id_authorization_failed
