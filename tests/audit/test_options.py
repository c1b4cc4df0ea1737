"""The options of the data source: Spark's names, any case; what is wrong is named with what would be right."""

from __future__ import annotations

import pytest

from kafka_classic.audit.source.options import Where, read_options
from kafka_classic.client.offsets import EARLIEST, LATEST
from kafka_classic.settings import SettingsError

BROKERS = {"kafka.bootstrap.servers": "a:1"}


def test_a_job_of_sparks_own_source_keeps_its_options() -> None:
    options = read_options(
        {
            **BROKERS,
            "SUBSCRIBE": "one, two,one",
            "startingoffsets": '{"one":{"0":23,"1":-1},"two":{"0":-2}}',
            "minPartitions": "10",
            "maxOffsetsPerTrigger": "1000",
            "failOnDataLoss": "False",
            "includeHeaders": "true",
            "groupIdPrefix": "mine",
            "kafka.group.id": "mine",
            "kafka.client.id": "me",
            "kafka.security.protocol": "plaintext",
            "kafka.max.partition.fetch.bytes": "1000",
            "kafka.compression.type": "lz4",
            "maxTriggerDelay": "30s",
            "kafkaConsumer.pollTimeoutMs": "512",
        }
    )
    assert options.topics == ("one", "two")
    assert options.start == Where(each={("one", 0): 23, ("one", 1): LATEST, ("two", 0): EARLIEST})
    assert (options.min_partitions, options.max_offsets, options.fail_on_data_loss) == (10, 1000, False)
    assert (options.headers, options.producer, options.client_id) == (True, False, "me")
    assert (options.limits.partition_max_bytes, options.max_delay_ms, options.patience_s) == (1000, 30_000, 0.512)
    assert options.producing["compression.type"] == "lz4"


def test_a_time_for_all_is_stronger_than_times_for_each_and_both_than_offsets() -> None:
    times = {"startingOffsetsByTimestamp": '{"one":{"0":5}}', "startingOffsets": "latest"}
    options = read_options({**BROKERS, **times, "startingTimestamp": "7"})
    assert options.start == Where(all=7, by_time=True, latest_if_none=False)
    options = read_options({**BROKERS, **times, "startingOffsetsByTimestampStrategy": "latest"})
    assert options.start == Where(each={("one", 0): 5}, by_time=True, latest_if_none=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscrib": "x"}, "there is no option 'subscrib'; did you mean subscribe?"),
        ({"bootstrap.servers": "a:1"}, "did you mean kafka.bootstrap.servers?"),
        ({"kafka.compresion.type": "x"}, "'kafka.compresion.type'; did you mean kafka.compression.type?"),
        ({"kafka.compression.type": "rar"}, "compression.type"),
        ({"kafka.auto.offset.reset": "latest"}, "'kafka.auto.offset.reset' cannot be set: say startingOffsets instead"),
        ({"kafka.isolation.level": "read_committed"}, "can only be 'read_uncommitted' here"),
        ({"kafka.security.protocol": "SASL_SSL"}, "can only be 'PLAINTEXT' here"),
        ({"subscribe": "x", "assign": '{"x":[0]}'}, "only one of subscribe, subscribePattern and assign"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"subscribePattern": "("}, "is no regular expression"),
        ({"assign": "x"}, 'assign is no JSON like {"topic":[0,1]}'),
        ({"startingOffsets": "yesterday"}, 'startingOffsets is "earliest", "latest" or JSON'),
        ({"startingOffsets": '{"x":{"0":-3}}'}, "-2 is the earliest offset, -1 the latest"),
        ({"startingOffsets": '{"x":[1]}'}, "startingOffsets is no JSON like"),
        ({"startingTimestamp": "now"}, "startingTimestamp is a whole number, not 'now'"),
        ({"minPartitions": "0"}, "minPartitions must be at least 1, not 0"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false, not 'maybe'"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is a time like 15m or 30s"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_options({**BROKERS, **given})
    assert message in str(caught.value)


def test_brokers_must_be_named() -> None:
    with pytest.raises(SettingsError, match=r"'kafka\.bootstrap\.servers' is missing: HOST:PORT"):
        read_options({"subscribe": "x"})


def test_a_batch_cannot_begin_at_the_end_nor_end_at_the_beginning_and_a_stream_has_no_end() -> None:
    topic = {**BROKERS, "subscribe": "x"}
    for given, message in (
        ({"startingOffsets": "latest"}, "startingOffsets cannot be"),
        ({"startingOffsets": '{"x":{"0":-1}}'}, "startingOffsets cannot be"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be"),
    ):
        with pytest.raises(SettingsError, match=message):
            read_options({**topic, **given}).check_batch()
    with pytest.raises(SettingsError, match="a stream has no end"):
        read_options({**topic, "endingTimestamp": "5"}).check_stream()
    with pytest.raises(SettingsError, match="say what to read"):
        read_options(BROKERS).check_batch()
