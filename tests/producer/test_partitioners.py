"""A key goes where the Java client sends it; messages without one go as the partitioner says."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from kafka_classic.producer.murmur2 import murmur2, partition_for_key
from kafka_classic.producer.partitioners import Partitioner
from kafka_classic.settings import SettingsError

# The vectors of Kafka's own UtilsTest, as Java's signed integers.
PUBLISHED = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def _partitioner(name: str) -> Partitioner:
    return Partitioner(name, False, random.Random(1))


@pytest.mark.parametrize("key", PUBLISHED)
def test_the_hash_of_a_key_is_the_published_one(key: bytes) -> None:
    assert murmur2(key) == PUBLISHED[key] & 0xFFFFFFFF


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_p12_any_key_goes_where_kafka_python_sends_it(key: bytes, partitions: int) -> None:
    assert partition_for_key(key, partitions) == (kafka_python_murmur2(key) & 0x7FFFFFFF) % partitions


def test_a_key_goes_to_its_partition_even_if_that_has_no_leader() -> None:
    key = next(key for key in map(b"%d".__mod__, range(100)) if partition_for_key(key, 4) == 2)
    assert _partitioner("random").partition("t", key, 4, (0, 1)) == 2


def test_round_robin_takes_turns_among_the_partitions_that_have_a_leader() -> None:
    chosen = [_partitioner("round_robin").partition("t", None, 4, (0, 1, 3))]
    round_robin = _partitioner("round_robin")
    chosen = [round_robin.partition("t", None, 4, (0, 1, 3)) for _ in range(9)]
    assert Counter(chosen) == {0: 3, 1: 3, 3: 3}
    assert chosen[:3] == chosen[3:6]


def test_p12_random_reaches_every_partition_about_as_often() -> None:
    anywhere = _partitioner("random")
    counts = Counter(anywhere.partition("t", None, 4, range(4)) for _ in range(4000))
    assert sorted(counts) == [0, 1, 2, 3]
    assert min(counts.values()) > 800


def test_sticky_stays_until_its_batch_is_closed() -> None:
    sticky = _partitioner("sticky")
    seen = set()
    for _ in range(100):
        of_one_batch = {sticky.partition("t", None, 8, range(8)) for _ in range(5)}
        assert len(of_one_batch) == 1
        seen |= of_one_batch
        sticky.batch_closed("t")
    assert seen == set(range(8))


def test_sticky_leaves_a_partition_that_lost_its_leader() -> None:
    sticky = _partitioner("sticky")
    first = sticky.partition("t", None, 2, (0, 1))
    assert sticky.partition("t", None, 2, (1 - first,)) == 1 - first


def test_keys_can_be_ignored() -> None:
    round_robin = Partitioner("round_robin", True, random.Random(1))
    assert {round_robin.partition("t", b"same", 3, range(3)) for _ in range(3)} == {0, 1, 2}


def test_a_function_decides_and_may_not_name_what_there_is_not() -> None:
    by_length = Partitioner(lambda topic, key, partitions: len(key or b""), False, random.Random(1))
    assert by_length.partition("t", b"ab", 3, range(3)) == 2
    with pytest.raises(ValueError, match="chose 3 for 't', which has partitions 0 to 2"):
        by_length.partition("t", b"abc", 3, range(3))


def test_a_misspelt_partitioner_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SettingsError, match="did you mean round_robin"):
        _partitioner("roundrobin")
