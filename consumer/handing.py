"""The hands of a consumer: partitions are given to them and taken away, messages go through them to the streams.

              start                        stop: taken away, then committed
    (free) ----------> fetched, handed out ---------------------------------> (free)
                                           drop: taken away, nothing committed
                                           ---------------------------------> (free)

What is committed is exactly what was processed: a message counts when the next one is asked for, or when the thread
that holds it commits. So nobody is ever told of a message that an application still works on, and after a crash every
message that was not processed comes again (P20).

Locks, in the order in which they are taken: _committing (over a commit, and over taking positions for it), _moving
(which partitions are here), the fetcher's, a stream's.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from kafka_classic.client.chunk import Chunk
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.fetch_packed import FetchLimits
from kafka_classic.client.fetcher import Fetcher
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.client.offsets import EARLIEST
from kafka_classic.consumer.offsets import OffsetStore
from kafka_classic.consumer.settings import ConsumerSettings
from kafka_classic.consumer.streams import Hand, MessageStream
from kafka_classic.wire.errors import KafkaError

if TYPE_CHECKING:
    from kafka_classic.consumer.auditing import GroupAuditor

log = logging.getLogger(__name__)

Streams = Mapping[str, Sequence[MessageStream]] | Sequence[MessageStream]


class Hands:
    """Hands out the messages of partitions to streams: those of each topic, or the same for all topics."""

    def __init__(
        self,
        cluster: Cluster,
        streams: Streams,
        store: OffsetStore,
        settings: ConsumerSettings,
        auditor: GroupAuditor | None = None,
    ) -> None:
        self._cluster = cluster
        self._auditor = auditor
        self._streams = streams
        self._store = store
        self._settings = settings
        self._committing = threading.RLock()
        self._moving = threading.RLock()
        self._hands: dict[TopicPartition, Hand] = {}
        self._owed: dict[TopicPartition, int] = {}  # of partitions that were stopped and could not be committed
        self._drops = 0
        self._closed = False
        for stream in self._all_streams():
            stream.supply = self
        self._fetcher = Fetcher(
            cluster,
            limits=FetchLimits(
                max_wait_ms=settings.fetch_wait_max_ms,
                min_bytes=settings.fetch_min_bytes,
                partition_max_bytes=settings.fetch_message_max_bytes,
            ),
            out_of_range=self._out_of_range,
            chunks=settings.queued_max_message_chunks,
            sink=self._put,
            settled=self._commit_chosen,
            lasting=True,
        )

    # --- for the rebalancer

    def start(self, claims: Mapping[TopicPartition, int]) -> None:
        """Read the committed offsets of these partitions and begin to fetch, each for the stream of that number."""
        drops = self._drops
        committed = self._store.resume(list(claims))
        with self._moving:
            if drops != self._drops or self._closed:
                return  # the claims were lost while their offsets were read
            offsets = {}
            for at, number in claims.items():
                if at not in self._hands:
                    offset = committed.get(at, -1)
                    self._hands[at] = Hand(at, self._stream(at, number), offset if offset >= 0 else None, self._auditor)
                    self._owed.pop(at, None)
                    offsets[at] = offset if offset >= 0 else self._settings.where_to_begin
            self._fetcher.add(offsets)

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out no more of these, then commit how far they were processed; raises what the store raises.

        When that fails they are stopped all the same, and another stop() tries the commit again; but what the brokers
        did not take (`offsets.storage=kafka`) was tried long enough. Without auto.commit.enable nothing is committed
        here: then the application alone says what is done.
        """
        with self._moving:
            positions = self._take_away(partitions)
            if self._settings.auto_commit_enable:
                self._owed |= {
                    hand.at: position
                    for hand, position in positions.items()
                    if position is not None and position != hand.committed
                }
        with self._committing:
            owed = {at: self._owed[at] for at in partitions if at in self._owed}
            if owed:
                try:
                    self._store.commit(owed)
                except KafkaError as error:
                    # ZooKeeper is there and the brokers are not: to keep the partitions would help nobody.
                    log.warning(
                        "%d partitions are given up without a commit, so their next reader begins at the last one: %s",
                        *(len(owed), error),
                    )
                else:
                    if self._auditor is not None:
                        self._auditor.committed(owed)
                with self._moving:
                    for at in owed:
                        self._owed.pop(at, None)
        if self._auditor is not None:
            self._auditor.given_up(partitions)

    def drop(self) -> None:
        """Forget all partitions at once and commit nothing: others may have them already."""
        with self._moving:
            self._drops += 1
            self._take_away(list(self._hands))
            self._owed.clear()
            if self._auditor is not None:
                self._auditor.lost()
        # A commit that is under way was begun with what we had: whoever registers anew comes after it.
        with self._committing:
            pass

    # --- for the connector

    def positions(self) -> dict[TopicPartition, int]:
        """Return up to where each partition is processed, of those where that is known."""
        with self._moving:
            found = {at: hand.stream.position(hand) for at, hand in self._hands.items()}
        return {at: position for at, position in found.items() if position is not None}

    def commit(self, *, held: bool = False) -> None:
        """Commit what is processed; with `held` also the messages that the calling thread holds at this moment."""
        if held:
            for stream in self._all_streams():
                stream.finish_held(threading.get_ident())
        self._commit(lambda hand: hand.stream.position(hand))

    def close(self) -> None:
        """End every stream and stop fetching. Commits nothing: stop() the partitions before."""
        with self._moving:
            self._closed = True
        for stream in self._all_streams():
            stream.close()
        self._fetcher.close()

    # --- for the streams

    def taken(self, chunk: Chunk) -> None:
        self._fetcher.taken(chunk)

    def read_again(self, hand: Hand, offset: int) -> bool:
        with self._moving:
            if self._hands.get(hand.at) is not hand:
                return False
            self._fetcher.stop([hand.at])
            hand.stream.begin_again(hand, offset)
            # Damaged on its way, it comes whole the next time; damaged on the disk, it must not come at once again.
            self._fetcher.add({hand.at: offset}, self._cluster.backoff.delay(hand.damages, self._cluster.rng))
            hand.damages += 1
        return True

    # --- inside

    def _all_streams(self) -> Sequence[MessageStream]:
        if isinstance(self._streams, Mapping):
            return [stream for streams in self._streams.values() for stream in streams]
        return self._streams

    def _stream(self, at: TopicPartition, number: int) -> MessageStream:
        streams = self._streams[at[0]] if isinstance(self._streams, Mapping) else self._streams
        return streams[number]

    def _put(self, chunk: Chunk) -> None:
        # Under the fetcher's lock: a partition that was stopped and started again has no chunk of its former life here.
        hand = self._hands.get((chunk.topic, chunk.partition))
        if hand is not None:
            hand.stream.put(hand, chunk)

    def _take_away(self, partitions: Collection[TopicPartition]) -> dict[Hand, int | None]:
        by_stream: dict[MessageStream, set[Hand]] = defaultdict(set)
        for at in partitions:
            hand = self._hands.pop(at, None)
            if hand is not None:
                by_stream[hand.stream].add(hand)
        positions: dict[Hand, int | None] = {}
        for stream, hands in by_stream.items():
            positions |= stream.take_away(hands)
        self._fetcher.stop([hand.at for hand in positions])
        return positions

    def _commit(self, offset_of: Callable[[Hand], int | None]) -> None:
        with self._committing:
            with self._moving:
                found = [(hand, offset_of(hand), hand.chosen) for hand in self._hands.values()]
            due = [(hand, offset, chosen) for hand, offset, chosen in found if offset is not None]
            offsets = {hand.at: offset for hand, offset, _ in due if offset != hand.committed}
            if offsets:
                self._store.commit(offsets)
                if self._auditor is not None:
                    self._auditor.committed(offsets)
            for hand, offset, chosen in due:
                hand.stream.committed(hand, offset, chosen)

    def _commit_chosen(self) -> None:
        """Commit at once where a new group begins: else one that began at the end would miss messages if it died.

        That and no more: what was handed out since is the application's to commit.
        """
        try:
            self._commit(lambda hand: hand.chosen)
        except Exception as error:
            log.warning("where reading begins could not be committed now, later commits will: %s", error)

    def _out_of_range(self, topic: str, partition: int, offset: int, log_start: int) -> int:
        begin = self._settings.where_to_begin
        log.warning(
            "offset %d of partition %d of %r is not in its log, which begins at %d: going on at its %s (%s)",
            offset,
            partition,
            topic,
            log_start,
            "beginning" if begin == EARLIEST else "end",
            f"auto.offset.reset={self._settings.auto_offset_reset}",
        )
        return begin
