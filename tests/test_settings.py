"""Settings: Kafka's names and defaults, checked when they are read."""

from pathlib import Path

import pytest

from kafka_classic.settings import (
    BrokerSettings,
    Endpoint,
    SettingsError,
    TopicSettings,
    read_properties,
)


def test_defaults_are_kafkas() -> None:
    settings = BrokerSettings.load({})
    assert settings.log_segment_bytes == 1 << 30
    assert settings.message_max_bytes == 1_048_588
    assert settings.log_retention_ms == 7 * 24 * 3_600_000
    assert settings.socket_request_max_bytes == 104_857_600


def test_a_misspelt_setting_is_refused_with_the_nearest_right_name() -> None:
    with pytest.raises(SettingsError, match=r"log\.segment\.byte; did you mean log\.segment\.bytes\?"):
        BrokerSettings.load({"log.segment.byte": "1"})
    with pytest.raises(SettingsError, match=r"did you mean retention\.ms\?"):
        TopicSettings.load(BrokerSettings(), {"retention.msec": "1"})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("num.partitions", "0", "from 1 to"),
        ("num.partitions", "many", "whole number"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("compression.type", "brotli", "one of producer"),
        ("listeners", "localhost:9092", "NAME://host:port"),
        ("listeners", "PLAINTEXT://h:99999", "NAME://host:port"),
        ("listeners", "A://h:1,A://h:2", "twice"),
        ("listeners", "", "empty"),
        ("advertised.listeners", "OTHER://h:1", "which listeners does not"),
        ("broker.id", "-1", "from 0"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_be_right(name: str, value: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        BrokerSettings.load({name: value})


def test_older_names_are_understood_and_the_finer_unit_wins() -> None:
    assert BrokerSettings.load({"log.retention.hours": "2"}).log_retention_ms == 7_200_000
    assert BrokerSettings.load({"log.retention.hours": "-1"}).log_retention_ms == -1
    both = BrokerSettings.load({"log.retention.hours": "2", "log.retention.ms": "5"})
    assert both.log_retention_ms == 5
    assert BrokerSettings.load({"log.dir": "d"}).log_dirs == "d"


def test_a_topics_defaults_come_from_its_broker() -> None:
    broker = BrokerSettings.load({"log.segment.bytes": "1000", "log.retention.ms": "7"})
    topic = TopicSettings.load(broker, {"retention.ms": "9"})
    assert (topic.segment_bytes, topic.retention_ms) == (1000, 9)


def test_a_classic_topic_flushes_often_as_it_shows_only_what_is_flushed() -> None:
    topic = TopicSettings.load(BrokerSettings(), {"classic": "true"})
    assert topic.flush_messages == 500
    assert topic.flush_ms == 200
    assert TopicSettings.load(BrokerSettings(), {"classic": "true", "flush.messages": "1"}).flush_messages == 1


def test_a_topic_may_be_compacted_and_deletes_too() -> None:
    topic = TopicSettings.load(BrokerSettings(), {"cleanup.policy": "compact, delete"})
    assert topic.cleanup_policy == ("compact", "delete")
    assert topic.compacts
    assert not TopicSettings.load(BrokerSettings(), {}).compacts
    broker = BrokerSettings.load({"log.cleanup.policy": "compact", "log.cleaner.min.cleanable.ratio": "0.1"})
    assert TopicSettings.load(broker, {}).compacts
    assert TopicSettings.load(broker, {}).min_cleanable_dirty_ratio == 0.1
    assert not TopicSettings.load(broker, {"classic": "true"}).compacts


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cleanup.policy": "compress"}, "one or more of delete, compact, not 'compress'"),
        ({"cleanup.policy": ""}, "one or more of delete, compact"),
        ({"cleanup.policy": "compact", "classic": "true"}, "classic topic must be delete"),
        ({"min.cleanable.dirty.ratio": "1.5"}, "from 0.0 to 1.0"),
        ({"min.cleanable.dirty.ratio": "nan"}, "from 0.0 to 1.0"),
        ({"min.cleanable.dirty.ratio": "half"}, "must be a number"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}, r"lag.ms \(10\) must not be above"),
        ({"max.compaction.lag.ms": "0"}, "from 1"),
    ],
)
def test_a_wrong_setting_of_compaction_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        TopicSettings.load(BrokerSettings(), given)


def test_every_topic_default_names_a_broker_setting() -> None:
    for known in TopicSettings.TABLE.values():
        assert not known.synonym or known.synonym in BrokerSettings.TABLE


def test_listeners_have_names_and_may_be_advertised_otherwise() -> None:
    settings = BrokerSettings.load(
        {
            "listeners": "INSIDE://:9092, OUTSIDE://[::1]:9093",
            "advertised.listeners": "INSIDE://broker-0:9092",
        }
    )
    assert settings.endpoints() == (Endpoint("INSIDE", "", 9092), Endpoint("OUTSIDE", "::1", 9093))
    assert settings.advertised() == (Endpoint("INSIDE", "broker-0", 9092), Endpoint("OUTSIDE", "::1", 9093))


def test_a_properties_file_is_read_as_java_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("# a comment\n! another\n\nbroker.id = 3\nlisteners=A://h:1,\\\n   B://h:2\n")
    assert read_properties(path) == {"broker.id": "3", "listeners": "A://h:1,B://h:2"}
    path.write_text("broker.id 3\n")
    with pytest.raises(SettingsError, match="line 1: expected name=value"):
        read_properties(path)
