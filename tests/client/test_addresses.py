"""Bootstrap lists and waiting times are read and reckoned as people expect."""

from __future__ import annotations

import random

import pytest

from kafka_classic.client.addresses import parse_bootstrap
from kafka_classic.client.backoff import Backoff
from kafka_classic.wire.errors import KafkaError


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9093", [("localhost", 9093)]),
        ("a:1, b:2,,c", [("a", 1), ("b", 2), ("c", 9092)]),
        ("PLAINTEXT://10.0.0.1:9092", [("10.0.0.1", 9092)]),
        ("[::1]:9095,[fe80::2]", [("::1", 9095), ("fe80::2", 9092)]),
    ],
)
def test_a_bootstrap_list_is_read(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize("text", ["", " , ", ":9092", "host:", "host:port", "host:0", "host:70000", "::1", "a:1:2"])
def test_an_address_that_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(KafkaError, match="HOST:PORT"):
        parse_bootstrap(text)


def test_the_wait_doubles_up_to_its_longest_with_some_chance_in_it() -> None:
    backoff, rng = Backoff(first=0.1, longest=1.0, jitter=0.2), random.Random(1)
    for attempt, middle in enumerate([0.1, 0.2, 0.4, 0.8, 1.0, 1.0]):
        waits = [backoff.delay(attempt, rng) for _ in range(200)]
        assert middle * 0.8 <= min(waits) < max(waits) <= middle * 1.2
    assert backoff.delay(10**6, rng) <= 1.2
