"""Each client writes with each codec, and every other client reads it."""

from __future__ import annotations

import pytest

from kafka_classic.records.codecs import Codec
from kafka_classic.testing.cluster import LocalCluster
from tests.clients.conftest import MakeTopic, installed
from tests.clients.on_disk import batches_on_disk
from tests.clients.parties import CODECS, Party, numbered, read, values

COUNT = 40
MESSAGES = numbered(COUNT, size=100)
_written: dict[str, str] = {}


@pytest.fixture
def written(party: Party, bootstrap: str, make_topic: MakeTopic) -> str:
    """A topic into which `party` has written with one codec after the other; made once."""
    if party.name not in _written:
        topic = make_topic()
        for codec in CODECS:
            party.produce(bootstrap, topic, MESSAGES, codec=codec)
        _written[party.name] = topic
    return _written[party.name]


def test_a_batch_lies_on_disk_with_the_codec_its_producer_chose(
    party: Party, written: str, cluster: LocalCluster
) -> None:
    lying = batches_on_disk(cluster, written)
    for number, codec in enumerate(CODECS):
        offsets = range(number * COUNT, (number + 1) * COUNT)
        assert {b.header.codec for b in lying if b.header.base_offset in offsets} == {Codec[codec.upper()]}


def test_every_client_reads_what_any_client_wrote_with_any_codec(
    party: Party, reader: Party, written: str, bootstrap: str
) -> None:
    found = read(reader, bootstrap, written)
    for number, codec in enumerate(CODECS):
        part = found[number * COUNT : (number + 1) * COUNT]
        assert [(m.key, m.value) for m in part] == [(m.key, m.value) for m in MESSAGES], codec
    assert [m.offset for m in found] == list(range(COUNT * len(CODECS)))


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_with_a_codec_of_its_own_is_recompressed_and_read_by_all(
    bootstrap: str, cluster: LocalCluster, make_topic: MakeTopic, wanted: str
) -> None:
    topic = make_topic(configs={"compression.type": wanted})
    # The producers' codecs differ from each other and, but for one, from the topic's.
    parties = installed()
    for party, codec in zip(parties, ("none", "gzip", "zstd", "lz4"), strict=False):
        party.produce(bootstrap, topic, MESSAGES, codec=codec)
    on_disk = "none" if wanted == "uncompressed" else wanted
    assert {lying.header.codec for lying in batches_on_disk(cluster, topic)} == {Codec[on_disk.upper()]}
    for party in parties:
        assert values(read(party, bootstrap, topic)) == values(MESSAGES) * len(parties), party.name
