"""Each client writes with each codec, and every other client reads it."""

from __future__ import annotations

import pytest

from kafka_classic.records.codecs import Codec
from kafka_classic.testing.cluster import LocalCluster
from tests.clients.conftest import PARTIES, MakeTopic
from tests.clients.on_disk import batches_on_disk
from tests.clients.parties import CODECS, Party, Sent, need_kcat, numbered, values

MESSAGES = numbered(50, size=100)
_written: dict[str, str] = {}


def _sent_to(partition: int) -> list[Sent]:
    return [message._replace(partition=partition) for message in MESSAGES]


@pytest.fixture
def written(party: Party, bootstrap: str, make_topic: MakeTopic) -> str:
    """A topic into whose partitions `party` has written with the codec of the partition's number; made once."""
    if party.name not in _written:
        topic = make_topic(partitions=len(CODECS))
        for codec in CODECS:
            party.produce(bootstrap, topic, _sent_to(CODECS.index(codec)), codec=codec)
        _written[party.name] = topic
    return _written[party.name]


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_lies_on_disk_with_the_codec_its_producer_chose(
    party: Party, written: str, cluster: LocalCluster, codec: str
) -> None:
    found = {lying.header.codec for lying in batches_on_disk(cluster, written, CODECS.index(codec))}
    assert found == {Codec[codec.upper()]}


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_any_client_wrote(
    party: Party, reader: Party, written: str, bootstrap: str, codec: str
) -> None:
    found = reader.read(bootstrap, written, partition=CODECS.index(codec))
    assert [(message.key, message.value) for message in found] == [(m.key, m.value) for m in MESSAGES]
    assert [message.offset for message in found] == list(range(len(MESSAGES)))


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_with_a_codec_of_its_own_is_recompressed_and_read_by_all(
    bootstrap: str, cluster: LocalCluster, make_topic: MakeTopic, wanted: str
) -> None:
    need_kcat()
    topic = make_topic(configs={"compression.type": wanted})
    # The producers' codecs differ from each other and, but for one, from the topic's.
    for party, codec in zip(PARTIES, ("none", "gzip", "zstd", "lz4"), strict=True):
        party.produce(bootstrap, topic, MESSAGES, codec=codec)
    on_disk = "none" if wanted == "uncompressed" else wanted
    assert {lying.header.codec for lying in batches_on_disk(cluster, topic)} == {Codec[on_disk.upper()]}
    for party in PARTIES:
        assert values(party.read(bootstrap, topic)) == values(MESSAGES) * len(PARTIES), party.name
