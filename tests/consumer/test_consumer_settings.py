"""The consumer's settings are Kafka 0.8's, and wrong ones are refused with what would be right."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafka_classic.client.offsets import EARLIEST, LATEST
from kafka_classic.consumer.connector import ConsumerConnector
from kafka_classic.consumer.settings import ConsumerSettings
from kafka_classic.settings import SettingsError


def test_the_defaults_are_those_of_kafka_0_8() -> None:
    settings = ConsumerSettings.load({})
    assert (settings.auto_commit_enable, settings.auto_commit_interval_ms) == (True, 60_000)
    assert (settings.auto_offset_reset, settings.consumer_timeout_ms) == ("largest", -1)
    assert (settings.queued_max_message_chunks, settings.fetch_message_max_bytes) == (2, 1 << 20)
    assert (settings.fetch_min_bytes, settings.fetch_wait_max_ms, settings.socket_timeout_ms) == (1, 100, 30_000)
    assert (settings.rebalance_max_retries, settings.rebalance_backoff_ms) == (4, 2000)
    assert (settings.zookeeper_session_timeout_ms, settings.offsets_storage) == (6000, "zookeeper")


@pytest.mark.parametrize(
    ("word", "where"), [("smallest", EARLIEST), ("earliest", EARLIEST), ("largest", LATEST), ("latest", LATEST)]
)
def test_p19_a_new_group_begins_where_the_setting_says(word: str, where: int) -> None:
    assert ConsumerSettings.load({"auto.offset.reset": word}).where_to_begin == where


def test_the_timeout_of_a_stream_is_for_ever_unless_set() -> None:
    assert ConsumerSettings.load({}).stream_timeout is None
    assert ConsumerSettings.load({"consumer.timeout.ms": "1500"}).stream_timeout == 1.5


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (
            "auto.comit.enable",
            "true",
            r"unknown consumer setting auto\.comit\.enable; did you mean auto\.commit\.enable",
        ),
        ("auto.offset.reset", "begin", r"auto\.offset\.reset must be one of smallest, earliest"),
        ("queued.max.message.chunks", "0", r"queued\.max\.message\.chunks must be from 1 to"),
        ("offsets.storage", "kafkaesque", r"offsets\.storage.*zookeeper.*kafka"),
    ],
)
def test_what_is_wrong_is_refused_with_what_to_do(name: str, text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        ConsumerSettings.load({name: text})


@pytest.mark.parametrize(
    ("group", "consumer"), [("", ""), ("a/b", ""), ("..", ""), ("g", "a/b"), ("g", ".."), ("g", "ä")]
)
def test_a_name_that_can_be_no_znode_is_refused_before_anybody_is_asked(group: str, consumer: str) -> None:
    with pytest.raises(SettingsError, match="cannot be a"):
        ConsumerConnector("127.0.0.1:1", group, {"consumer.id": consumer})


def test_the_package_imports_nothing_before_it_is_asked_for() -> None:
    program = (
        "import sys; import kafka_classic.consumer as c; assert 'kafka_classic.client.cluster' not in sys.modules; "
        "c.SimpleConsumer, c.MessageStream, c.Hands; assert 'kazoo' not in sys.modules; "
        "assert not hasattr(c, 'Nonsense')"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True)
