"""Settings over the wire: what is told of each, how they are changed, and that a change holds at once and for good."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.settings import BrokerSettings, TopicSettings
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.broker.calls import BROKER, alter_configs, change_configs, config, describe_configs, set_configs
from tests.broker.conftest import MakeTopic, make_topic
from tests.broker.raw import Raw, batch, produce

SET, DELETE, APPEND, SUBTRACT = range(4)
FROM_TOPIC, FROM_FILE, FROM_DEFAULT = 1, 4, 5
BOOLEAN, INT, LONG, DOUBLE, LIST = 1, 3, 5, 6, 7


class TestDescribe:
    @pytest.mark.parametrize("version", range(1, 5))
    def test_every_version_tells_every_setting_of_a_topic(self, raw: Raw, topic_with: MakeTopic, version: int) -> None:
        topic = topic_with(configs={"retention.ms": "1234567"})
        found = describe_configs(raw, topic, version=version)
        assert found.error_code is Error.none
        rows = {row.name: row for row in found.configs}
        assert rows.keys() == TopicSettings.TABLE.keys()
        assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("1234567", FROM_TOPIC)
        assert [(s.name, s.value, s.source) for s in rows["retention.ms"].synonyms] == [
            ("retention.ms", "1234567", FROM_TOPIC),
            ("log.retention.ms", "604800000", FROM_DEFAULT),
        ]
        assert rows["segment.bytes"].config_source == FROM_DEFAULT
        assert not any(row.read_only or row.is_sensitive for row in rows.values())
        if version >= 3:
            kinds = {name: row.config_type for name, row in rows.items()}
            assert (kinds["classic"], kinds["cleanup.policy"]) == (BOOLEAN, LIST)
            assert kinds["min.cleanable.dirty.ratio"] == DOUBLE
            assert (kinds["segment.bytes"], kinds["retention.ms"]) == (INT, LONG)
            assert all(row.documentation for row in rows.values())

    def test_synonyms_and_documentation_come_only_when_asked_for(self, raw: Raw, kafka_topic: str) -> None:
        found = describe_configs(raw, kafka_topic, synonyms=False, docs=False)
        assert not any(row.synonyms or row.documentation for row in found.configs)

    def test_only_the_named_ones_come(self, raw: Raw, kafka_topic: str) -> None:
        found = describe_configs(raw, kafka_topic, keys=["retention.ms", "classic", "nonsense"])
        assert sorted(row.name for row in found.configs) == ["classic", "retention.ms"]

    def test_a_brokers_settings_say_what_its_file_set(self, restartable: LocalCluster) -> None:
        with Raw(restartable.brokers[0].address) as raw:
            found = describe_configs(raw, "0", BROKER)
            rows = {row.name: row for row in found.configs}
            assert rows.keys() == BrokerSettings.TABLE.keys()
            assert all(row.read_only for row in rows.values())
            given = rows["log.retention.check.interval.ms"]
            assert (given.value, given.config_source) == ("100", FROM_FILE)
            assert [(s.value, s.source) for s in given.synonyms] == [("100", FROM_FILE), ("300000", FROM_DEFAULT)]
            assert rows["num.partitions"].config_source == FROM_DEFAULT

    def test_a_topics_default_is_the_brokers_setting(self, three: LocalCluster) -> None:
        with Raw(three.brokers[0].address) as raw:
            row = config(raw, make_topic(three.brokers[0].address), "min.insync.replicas")
            assert (row.value, row.config_source) == ("1", FROM_DEFAULT)

    def test_what_is_not_there_is_told(self, raw: Raw) -> None:
        assert describe_configs(raw, "no-such-topic").error_code is Error.unknown_topic_or_partition
        assert describe_configs(raw, "../x").error_code is Error.invalid_topic_exception
        assert describe_configs(raw, "77", BROKER).error_code is Error.invalid_request
        of_all = describe_configs(raw, "", BROKER)
        assert (of_all.error_code, of_all.configs) == (Error.none, ())
        assert describe_configs(raw, "x", 9).error_code is Error.invalid_request


class TestChange:
    @pytest.mark.parametrize("version", [0, 1])
    def test_settings_are_set_and_deleted_one_by_one(self, raw: Raw, kafka_topic: str, version: int) -> None:
        both = (("retention.ms", SET, "1000000"), ("segment.bytes", SET, "5000"))
        assert change_configs(raw, kafka_topic, *both, version=version).error_code is Error.none
        assert config(raw, kafka_topic, "retention.ms").value == "1000000"
        back = ("retention.ms", DELETE, None)
        assert change_configs(raw, kafka_topic, back, version=version).error_code is Error.none
        row = config(raw, kafka_topic, "retention.ms")
        assert (row.value, row.config_source) == ("604800000", FROM_DEFAULT)
        assert config(raw, kafka_topic, "segment.bytes").value == "5000"

    @pytest.mark.parametrize("version", range(3))
    def test_alter_configs_replaces_all_at_once(self, raw: Raw, kafka_topic: str, version: int) -> None:
        set_configs(raw, kafka_topic, retention_ms="1000000")
        assert alter_configs(raw, kafka_topic, {"segment.bytes": "5000"}, version=version).error_code is Error.none
        assert config(raw, kafka_topic, "retention.ms").config_source == FROM_DEFAULT
        assert config(raw, kafka_topic, "segment.bytes").value == "5000"

    def test_a_policy_is_added_to_a_topic_and_taken_from_it(self, raw: Raw, kafka_topic: str) -> None:
        for operation, value, now in (
            (APPEND, "compact", "delete,compact"),
            (APPEND, "compact", "delete,compact"),
            (SUBTRACT, "delete", "compact"),
        ):
            changed = change_configs(raw, kafka_topic, ("cleanup.policy", operation, value))
            assert changed.error_code is Error.none
            assert config(raw, kafka_topic, "cleanup.policy").value == now
        refused = change_configs(raw, kafka_topic, ("cleanup.policy", SUBTRACT, "compact"))
        assert refused.error_code is Error.invalid_config
        assert config(raw, kafka_topic, "cleanup.policy").value == "compact"

    def test_a_classic_topic_is_never_compacted(self, raw: Raw, topic_with: MakeTopic) -> None:
        topic = topic_with(configs={"classic": "true"})
        refused = change_configs(raw, topic, ("cleanup.policy", SET, "compact,delete"))
        assert refused.error_code is Error.invalid_config
        assert "classic" in refused.error_message

    def test_one_wrong_change_leaves_all_as_it_was(self, raw: Raw, kafka_topic: str) -> None:
        for wrong, hint in (
            (("retention.mss", SET, "1"), "did you mean retention.ms"),
            (("segment.bytes", SET, "-5"), "14"),
            (("segment.bytes", SET, None), "segment.bytes"),
            (("segment.bytes", APPEND, "5"), "segment.bytes"),
            (("segment.bytes", SUBTRACT, "5"), "segment.bytes"),
            (("segment.bytes", 9, "5"), "segment.bytes"),
        ):
            refused = change_configs(raw, kafka_topic, ("retention.ms", SET, "1000000"), wrong)
            assert refused.error_code is Error.invalid_config
            assert hint in refused.error_message
        assert config(raw, kafka_topic, "retention.ms").config_source == FROM_DEFAULT
        refused = alter_configs(raw, kafka_topic, {"retention.ms": "1", "no.such": "x"})
        assert refused.error_code is Error.invalid_config

    def test_validate_only_changes_nothing(self, raw: Raw, kafka_topic: str) -> None:
        assert change_configs(raw, kafka_topic, ("retention.ms", SET, "1"), dry=True).error_code is Error.none
        assert alter_configs(raw, kafka_topic, {"retention.ms": "1"}, dry=True).error_code is Error.none
        assert change_configs(raw, kafka_topic, ("nonsense", SET, "1"), dry=True).error_code is Error.invalid_config
        assert config(raw, kafka_topic, "retention.ms").config_source == FROM_DEFAULT

    def test_what_cannot_be_changed_is_refused(self, raw: Raw) -> None:
        assert change_configs(raw, "no-such-topic", ("retention.ms", SET, "1")).error_code is (
            Error.unknown_topic_or_partition
        )
        refused = change_configs(raw, "0", ("num.partitions", SET, "5"), kind=BROKER)
        assert refused.error_code is Error.invalid_request
        assert "file" in refused.error_message

    def test_a_change_holds_at_once_on_every_broker_and_over_restarts(self, three: LocalCluster) -> None:
        addresses = [broker.address for broker in three.brokers]
        topic = make_topic(addresses[0], assignment=[(0, [0])])
        with Raw(addresses[0]) as leader, Raw(addresses[1]) as other:
            until(lambda: describe_configs(other, topic).error_code is Error.none)
            set_configs(other, topic, max_message_bytes="100")
            until(lambda: produce(leader, topic, batch(b"v" * 200))[0] == Error.message_too_large.value)
            assert config(leader, topic, "max.message.bytes").value == "100"
            set_configs(leader, topic, max_message_bytes="200")
            assert produce(leader, topic, batch(b"v" * 50))[0] == 0  # its own change holds at once
        three.brokers[0].restart()
        with Raw(addresses[0]) as leader:
            assert config(leader, topic, "max.message.bytes").value == "200"
            assert produce(leader, topic, batch(b"v" * 300))[0] == Error.message_too_large.value

    def test_a_new_segment_size_holds_at_once(self, raw: Raw, kafka_topic: str, kafka_cluster: LocalCluster) -> None:
        folder = kafka_cluster.brokers[0].data_dir / f"{kafka_topic}-0"
        for _ in range(5):
            assert produce(raw, kafka_topic, batch(b"v" * 500))[0] == 0
        assert len(list(folder.glob("*.log"))) == 1
        set_configs(raw, kafka_topic, segment_bytes="1000")
        for _ in range(5):
            assert produce(raw, kafka_topic, batch(b"v" * 500))[0] == 0
        assert len(list(folder.glob("*.log"))) > 4
