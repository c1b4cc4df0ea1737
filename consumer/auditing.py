"""A member of a group that counts what its application processed, and tells it to `__audit` (P25).

Counted is what lies between where a partition was begun and how far it was processed, when that is committed. So what
comes again after a crash is recognised by its numbers, and what a member had and never committed is not claimed.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from kafka_classic.client.chunk import Chunk
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.client.monitor import Monitor
from kafka_classic.client.monitoring import GROUP, Event, Share, Tenure
from kafka_classic.client.spans import UNNUMBERED, Run, add_run, in_order
from kafka_classic.client.tally import NOBODY
from kafka_classic.records.batch import BatchHeader

log = logging.getLogger(__name__)

_TICK_S = 1.0


class Handed(NamedTuple):
    """A batch that was handed out, from an offset on."""

    header: BatchHeader
    begin: int


class Reader:
    """What is known of a partition while this member reads it. put() and upto() are called in the order of offsets."""

    def __init__(self, tenure: Tenure) -> None:
        self.tenure = tenure
        self.batches: deque[Handed] = deque()


class GroupAuditor:
    """Counts for one member. Windows are those of the first message of a batch: the audit goes by names anyway."""

    def __init__(
        self, cluster: Cluster, group: str, client: str, window_ms: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._group = group
        self._client = client
        self._server = socket.gethostname()
        self._window_ms = window_ms
        self._clock = clock
        self._source = f"{group}/{self._server}-{secrets.token_hex(4)}"
        self._monitor = Monitor(cluster, clock)
        self._lock = threading.Lock()
        self._readers: dict[TopicPartition, Reader] = {}
        self._tenures: dict[str, list[Tenure]] = {}
        self._shares: dict[tuple[str, int], dict[tuple[int, int], Share]] = {}  # by topic and window
        self._revisions: dict[tuple[str, int], int] = {}
        self._dirty: dict[tuple[str, int], None] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group-auditor", daemon=True)
        self._thread.start()

    def handed(self, chunk: Chunk, header: BatchHeader, begin: int) -> None:
        """A batch is being handed out from an offset on."""
        if header.is_control:
            return
        with self._lock:
            at = chunk.topic, chunk.partition
            reader = self._readers.get(at)
            if reader is None:
                tenure = Tenure(at[1], begin, begin)
                self._tenures.setdefault(at[0], []).append(tenure)
                reader = self._readers[at] = Reader(tenure)
                self._dirty[at[0], -1] = None
            while reader.batches and reader.batches[-1].begin >= begin:
                reader.batches.pop()  # damaged on its way, it is read again
            reader.batches.append(Handed(header, max(begin, header.base_offset)))

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """All before these offsets is processed, and the group knows it."""
        now = int(self._clock() * 1000)
        with self._lock:
            for at, offset in offsets.items():
                reader = self._readers.get(at)
                if reader is not None and offset > reader.tenure.upto:
                    self._count(at, reader, offset, now)

    def given_up(self, partitions: Collection[TopicPartition]) -> None:
        """This member reads these no more, and has committed what it had."""
        with self._lock:
            for at in partitions:
                reader = self._readers.pop(at, None)
                if reader is not None:
                    reader.tenure.ended = True
                    self._dirty[at[0], -1] = None

    def lost(self) -> None:
        """All partitions were lost at once: nothing says how far others go on from."""
        with self._lock:
            self._readers.clear()

    def close(self) -> None:
        """Tell for the last time."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join()
            self._tell()

    # --- inside

    def _count(self, at: TopicPartition, reader: Reader, upto: int, now: int) -> None:
        while reader.batches and reader.batches[0].begin < upto:
            header, begin = reader.batches[0]
            last = header.base_offset + header.record_count
            end = min(upto, last)
            if end > begin:
                self._add(at, header, begin, end, now)
            if upto >= last:
                reader.batches.popleft()
            else:
                reader.batches[0] = Handed(header, end)
                break
        reader.tenure.upto = upto
        self._dirty[at[0], -1] = None

    def _add(self, at: TopicPartition, header: BatchHeader, begin: int, end: int, now: int) -> None:
        window = header.base_timestamp - header.base_timestamp % self._window_ms
        shares = self._shares.setdefault((at[0], window), {})
        share = shares.get((at[1], header.producer_id))
        if share is None:
            share = shares[at[1], header.producer_id] = Share(at[1], header.producer_id)
            share.tally.content = share.tally.batches = None
        count, tally = end - begin, share.tally
        if header.producer_id == NOBODY:
            add_run(tally.runs, Run(UNNUMBERED, begin, end, begin, end - 1))
        else:
            first = header.base_sequence + begin - header.base_offset
            add_run(tally.runs, Run(header.producer_epoch, first, first + count, begin, end - 1))
        delay = max(0, now - header.max_timestamp)
        tally.count += count
        tally.bytes += header.size * count // max(1, header.record_count)
        tally.slowest = max(tally.slowest, delay)
        tally.delays += delay * count
        self._dirty[at[0], window] = None

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_S):
            try:
                self._tell()
            except Exception:
                log.exception("the audit of this consumer stumbled; what it cannot tell is unknown")

    def _tell(self) -> None:
        with self._lock:
            # What was counted goes first: who sees how far this member came must be able to see what it had.
            due = sorted(self._dirty, key=lambda key: key[1] < 0)
            self._dirty.clear()
            events = [self._event(*key) for key in due]
        if not self._monitor.publish(events):
            with self._lock:
                self._dirty |= dict.fromkeys(due)

    def _event(self, topic: str, window: int) -> Event:
        self._revisions[topic, window] = self._revisions.get((topic, window), 0) + 1
        shares = [share for _, share in sorted(self._shares.get((topic, window), {}).items())]
        for share in shares:
            share.tally.runs = in_order(share.tally.runs)
        return Event(
            GROUP,
            self._source,
            topic,
            window,
            self._window_ms,
            "open",
            self._revisions[topic, window],
            sorted({share.producer for share in shares}),
            [Share.from_json(share.to_json()) for share in shares],  # as they are now: it is sent without the lock
            self._server,
            self._client,
            group=self._group,
            tenures=[replace(tenure) for tenure in self._tenures.get(topic, ())] if window < 0 else [],
        )
