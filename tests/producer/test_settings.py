"""Settings have Kafka's names and are checked before anything is sent."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from kafka_classic import Producer
from kafka_classic.producer.settings import ProducerSettings
from kafka_classic.records.codecs import Codec
from kafka_classic.settings import SettingsError


def test_names_may_have_dots_or_underscores_and_values_their_type_or_text() -> None:
    settings = ProducerSettings.load({"batch.size": "100", "linger_ms": 5, "compression.type": "lz4"})
    assert (settings.batch_size, settings.linger_ms, settings.codec) == (100, 5, Codec.LZ4)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"lingerms": 1}, "did you mean linger.ms"),
        ({"batch.sise": 1}, "did you mean batch.size"),
        ({"compression_type": "rar"}, "must be one of none, gzip, snappy, lz4, zstd"),
        ({"acks": 2}, "acks must be one of"),
        ({"acks": 1, "enable_idempotence": True}, "enable.idempotence needs acks=all"),
        ({"max_in_flight_requests_per_connection": 6}, "must be at most 5 with enable.idempotence"),
        ({"delivery_timeout_ms": 1000}, "at least linger.ms"),
        ({"buffer_memory": "much"}, "must be a whole number"),
    ],
)
def test_a_wrong_setting_is_refused_and_says_what_would_be_right(given: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Producer("127.0.0.1:1", **given)


def test_idempotence_is_off_where_acks_do_not_allow_it() -> None:
    assert ProducerSettings.load({}).enable_idempotence
    assert not ProducerSettings.load({"acks": 1}).enable_idempotence


def test_brokers_are_named_once() -> None:
    with pytest.raises(SettingsError, match="one of both"):
        Producer()
    with pytest.raises(SettingsError, match="one of both"):
        Producer("127.0.0.1:1", zookeeper="127.0.0.1:2")


def _imported_by(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_none_of_its_rooms() -> None:
    assert not [name for name in _imported_by("import kafka_classic") if name.startswith("kafka_classic.")]


def test_a_producer_brings_neither_the_brokers_nor_the_audits_libraries() -> None:
    assert not _imported_by("from kafka_classic import Producer") & {"gevent", "pyspark", "kazoo", "typer", "rich"}


def test_a_default_delivery_timeout_never_contradicts_what_is_set() -> None:
    assert ProducerSettings.load({"linger.ms": 200_000}).delivery_timeout_ms == 230_000
    assert ProducerSettings.load({}).delivery_timeout_ms == 120_000
