"""A producer that counts itself: what it tells, when, and what its batches look like."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kafka_classic import Producer
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import UnknownTopic
from kafka_classic.client.fetcher import Fetcher
from kafka_classic.client.fingerprint import fingerprint, words_of
from kafka_classic.client.monitoring import TOPIC, Event, latest
from kafka_classic.client.offsets import LATEST, list_offsets
from kafka_classic.client.simple import beginning, consume
from kafka_classic.client.spans import Span, covered
from kafka_classic.client.topics import NewTopic, create_topics
from kafka_classic.records.batch import BatchHeader
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until

MINUTE = 60_000
BEGIN = int(time.time() * 1000) // MINUTE * MINUTE - 20 * MINUTE


@pytest.fixture
def client(kafka_cluster: LocalCluster) -> Iterator[Cluster]:
    with Cluster(kafka_cluster.bootstrap) as cluster:
        yield cluster


def events_of(client: Cluster, topic: str) -> list[Event]:
    """All that `__audit` has of a topic, by revision."""
    try:
        starts = beginning(client, [TOPIC])
    except UnknownTopic:
        return []
    ends = {at: found.offset for at, found in list_offsets(client, dict.fromkeys(starts, LATEST)).items()}
    found = [Event.decode(one.record.value or b"") for one in consume(client, starts, until=ends, idle=30)]
    return [event for event in found if event.topic == topic]


def headers_of(client: Cluster, topic: str) -> list[BatchHeader]:
    starts = beginning(client, [topic])
    found: list[BatchHeader] = []
    ends = {at: one.offset for at, one in list_offsets(client, dict.fromkeys(starts, LATEST)).items()}
    with Fetcher(client, starts) as fetcher:
        while any(at in ends for at in ends):
            chunk = fetcher.next(30)
            assert chunk is not None
            found += [header for _, header in chunk.batches]
            if chunk.next_offset >= ends.get((chunk.topic, chunk.partition), 0):
                ends.pop((chunk.topic, chunk.partition), None)
    return found


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_a_window_is_opened_before_it_is_sent_and_closed_with_what_was_acknowledged(
    kafka_cluster: LocalCluster, client: Cluster, acks: str
) -> None:
    topic = f"audited-{acks}"
    create_topics(client, [NewTopic(topic, 1, 1)])
    with Producer(kafka_cluster.bootstrap, audit=True, acks=acks, client_id="me") as producer:
        for number in range(10):
            producer.send(topic, b"v%d" % number, key=b"k", timestamp=BEGIN + number)
        producer.flush()
        assert [(event.state, event.shares) for event in events_of(client, topic)] == [("open", [])]
    [event] = latest(events_of(client, topic))
    assert (event.state, event.acks, event.client) == ("closed", acks, "me")
    [share] = event.shares
    assert share.tally.count == 10
    assert share.tally.bytes == 30
    assert covered(share.tally.runs) == [Span(0, 0, 10)]
    records = [(b"k", b"v%d" % number, (), BEGIN + number) for number in range(10)]
    assert share.tally.content == fingerprint(words_of(records))
    [header] = {(one.producer_id, one.producer_epoch) for one in headers_of(client, topic)}
    assert header == (share.producer, 0)


def test_no_batch_reaches_over_the_border_of_a_window(kafka_cluster: LocalCluster, client: Cluster) -> None:
    create_topics(client, [NewTopic("bordered", 1, 1)])
    with Producer(kafka_cluster.bootstrap, audit=True, linger_ms=1000) as producer:
        for number in range(60):
            producer.send("bordered", b"x", timestamp=BEGIN + number // 7 % 3 * MINUTE)
        producer.send_batch("bordered", [b"a", b"b"], timestamp=BEGIN + 5 * MINUTE)
    headers = headers_of(client, "bordered")
    assert {header.max_timestamp // MINUTE - header.base_timestamp // MINUTE for header in headers} == {0}
    counts = {event.window: event.shares[0].tally.count for event in latest(events_of(client, "bordered"))}
    assert sum(counts.values()) == 62
    assert counts[BEGIN + 5 * MINUTE] == 2


def test_a_late_message_opens_its_window_again_and_corrects_it(kafka_cluster: LocalCluster, client: Cluster) -> None:
    create_topics(client, [NewTopic("belated", 1, 1)])
    with Producer(kafka_cluster.bootstrap, audit=True, audit_window_ms=200, audit_grace_ms=0) as producer:
        producer.send("belated", b"in time", timestamp=BEGIN).result(30)
        until(lambda: any(event.closed for event in events_of(client, "belated")), "the end of the window")
        producer.send("belated", b"late", timestamp=BEGIN + 1).result(30)
    events = events_of(client, "belated")
    states = [event.state for event in events]
    assert states[:3] == ["open", "closed", "open"]
    assert states[-1] == "closed"
    [last] = latest(events)
    assert (last.shares[0].tally.count, last.shares[0].late) == (2, 1)


@pytest.mark.parametrize("sync", [False, True])
def test_a_send_that_is_held_up_while_its_window_closes_opens_it_again_first(
    kafka_cluster: LocalCluster, client: Cluster, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    topic = f"held-up-{sync}"
    create_topics(client, [NewTopic(topic, 1, 1)])
    with Producer(kafka_cluster.bootstrap, audit=True, sync=sync, audit_window_ms=200, audit_grace_ms=0) as producer:
        producer.send(topic, b"in time", timestamp=BEGIN).result(30)
        take = producer._sender.memory.take

        def held_up(size: int) -> bool:
            """For want of memory, say: a send has begun, and its window closes under it."""
            until(lambda: any(event.closed for event in events_of(client, topic)), "the end of the window")
            return take(size)

        monkeypatch.setattr(producer._sender.memory, "take", held_up)
        producer.send(topic, b"held up", timestamp=BEGIN + 1).result(30)
        assert producer._sender.memory.used == 0
    first, closed, again, *_ = events_of(client, topic)
    assert [first.state, closed.state, again.state] == ["open", "closed", "open"]
    assert (again.shares[0].tally.count, again.shares[0].late) == (1, 0)  # told before it was there
    [last] = latest(events_of(client, topic))
    assert (last.state, last.shares[0].tally.count, last.shares[0].late) == ("closed", 2, 1)


def test_a_producer_that_is_not_audited_tells_nothing(kafka_cluster: LocalCluster, client: Cluster) -> None:
    create_topics(client, [NewTopic("silent", 1, 1)])
    with Producer(kafka_cluster.bootstrap) as producer:
        producer.send("silent", b"x").result(30)
    assert events_of(client, "silent") == []


def test_messages_go_on_while_nobody_can_be_told(
    kafka_cluster: LocalCluster, client: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(client, [NewTopic("untold", 1, 1)])
    with Producer(kafka_cluster.bootstrap, audit=True) as producer:
        assert producer._auditor is not None
        monkeypatch.setattr(producer._auditor._monitor, "publish", lambda *_, **__: False)
        assert producer.send("untold", b"x").result(30).offset == 0
    assert events_of(client, "untold") == []
