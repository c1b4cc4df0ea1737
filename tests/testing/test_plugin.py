"""The pytest plugin gives users a cluster, and costs those who do not use it nothing."""

from __future__ import annotations

import pytest

from kafka_classic.client.admin import describe_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.testing.cluster import LocalCluster

pytest_plugins = ["pytester"]


def test_the_fixtures_give_a_cluster_and_a_fresh_topic(
    kafka_cluster: LocalCluster, kafka_bootstrap: str, kafka_topic: str
) -> None:
    assert kafka_bootstrap == kafka_cluster.bootstrap
    with Cluster(kafka_bootstrap) as cluster:
        (topic,) = describe_topics(cluster, [kafka_topic])
    assert len(topic.partitions) == 1
    assert topic.name.startswith("test_the_fixtures_give_a_cluster")


@pytest.mark.parametrize("odd", ["ä/ö", "../x", " "])
def test_a_topic_gets_a_legal_name_whatever_the_test_is_called(kafka_topic: str, odd: str) -> None:
    assert kafka_topic.isascii()
    assert "/" not in kafka_topic


def test_a_run_that_uses_no_fixture_imports_nothing_heavy(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_heavy():
            assert "kafka_classic.testing.plugin" in sys.modules
            heavy = {"gevent", "kio", "kazoo", "typer", "crc32c", "kafka_classic.testing.cluster"}
            assert not heavy & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_users_choose_brokers_and_settings_in_their_conftest(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_brokers():
            return 2

        @pytest.fixture(scope="session")
        def kafka_settings():
            return {"num.partitions": "7"}
        """
    )
    pytester.makepyfile(
        """
        from kafka_classic.client.cluster import Cluster

        def test_the_choice(kafka_cluster, kafka_topic):
            with Cluster(kafka_cluster.bootstrap) as cluster:
                assert len(cluster.brokers()) == 2
                assert len(cluster.topic(kafka_topic).partitions) == 7
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
