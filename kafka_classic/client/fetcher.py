"""Records out of partitions: one thread for each broker that leads some, long polls, a buffer kept ready (P7).

    finding a leader --(found)--> pulled by that broker's thread --(leader moved, connection lost)--> finding a leader

A partition is always in one of the two, together with the offset to be read next. Each thread asks its broker for all
its partitions in one request and puts what comes, still encoded, into a queue of bounded length: while the application
works on one answer the next is under way, and when it stops reading, so do we.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import NamedTuple

from kafka_classic.client.cluster import OUT_OF_DATE, Cluster
from kafka_classic.client.connection import Connection
from kafka_classic.client.errors import Closed
from kafka_classic.client.fetch_packed import VERSION, Fetched, FetchLimits, pack_fetch, read_fetched
from kafka_classic.client.frames import Frame
from kafka_classic.client.leaders import TopicPartition, partition_error
from kafka_classic.records.batch import CorruptBatch, InvalidRecord, iter_batches
from kafka_classic.records.decode import Record, decode_records
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError

_BUFFERED_CHUNKS = 8


class Chunk(NamedTuple):
    """Batches of one partition as they came; `next_offset` is what is read after them."""

    topic: str
    partition: int
    offset: int
    next_offset: int
    high_watermark: int
    data: Frame

    def records(self, check_crc: bool = True) -> Iterator[Record]:
        """Decode the records from `offset` on: a batch may begin before it. Every checksum is verified (P22)."""
        try:
            for record in decode_records(self.data, check_crc=check_crc):
                if record.offset >= self.offset:
                    yield record
        except (CorruptBatch, InvalidRecord) as error:
            raise partition_error(
                Error.corrupt_message,
                self.topic,
                self.partition,
                f"the records from offset {self.offset} on are damaged ({error}); "
                "`kafka-classic log verify` on the broker's segment files shows where",
            ) from error


# What to do about an offset that the log no longer or not yet has: return another one, or raise.
OutOfRange = Callable[[str, int, int, int], int]


def fail_out_of_range(topic: str, partition: int, offset: int, log_start: int) -> int:
    raise partition_error(
        Error.offset_out_of_range,
        topic,
        partition,
        f"offset {offset} is not in the log, which begins at {log_start}: read from the beginning or from the end",
    )


class Fetcher:
    """Pulls partitions from their leaders from the given offsets on, until it is closed."""

    def __init__(
        self,
        cluster: Cluster,
        offsets: Mapping[TopicPartition, int],
        limits: FetchLimits | None = None,
        *,
        out_of_range: OutOfRange = fail_out_of_range,
    ) -> None:
        self._cluster = cluster
        self._limits = limits or FetchLimits()
        self._out_of_range = out_of_range
        self._queue: queue.Queue[Chunk | KafkaError] = queue.Queue(_BUFFERED_CHUNKS)
        self._state = threading.Condition()
        self._leaderless = dict(offsets)
        self._pulls: dict[int, _Pull] = {}
        self._stopped: set[TopicPartition] = set()
        self._closing = threading.Event()
        self._finder = threading.Thread(
            target=self._guard, args=(self._find_leaders,), name="leader-finder", daemon=True
        )
        self._finder.start()

    def next(self, timeout: float | None) -> Chunk | None:
        """Return the next chunk, or None when nothing came in `timeout` seconds; raises what went wrong for good."""
        try:
            found = self._queue.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(found, KafkaError):
            raise found
        return found

    def stop(self, topic: str, partition: int) -> None:
        """Pull this partition no more; a chunk of it may still be in the queue."""
        with self._state:
            self._stopped.add((topic, partition))
            self._leaderless.pop((topic, partition), None)

    def close(self) -> None:
        """Stop all threads, also those inside a long poll."""
        self._closing.set()
        with self._state:
            self._state.notify_all()
            pulls = list(self._pulls.values())
        for pull in pulls:
            pull.close()
        while True:  # make room for a thread that waits to put
            try:
                self._queue.get_nowait()
            except queue.Empty:
                break
        self._finder.join()
        for pull in pulls:
            pull.thread.join()

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- finding leaders: the finder's thread

    def _find_leaders(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._leaderless or self._closing.is_set())
                if self._closing.is_set():
                    return
                wanted = list(self._leaderless)
            for at in wanted:
                leader = self._cluster.leader(*at)
                with self._state:
                    offset = self._leaderless.pop(at, None)
                    if offset is not None and not self._closing.is_set():
                        self._give(leader, at, offset)

    def _give(self, leader: int, at: TopicPartition, offset: int) -> None:
        pull = self._pulls.get(leader)
        if pull is None:
            pull = self._pulls[leader] = _Pull(leader)
            pull.thread = threading.Thread(
                target=self._guard, args=(self._pull, pull), name=f"fetch-from-{leader}", daemon=True
            )
            pull.offsets[at] = offset
            pull.thread.start()
        else:
            pull.offsets[at] = offset
            self._state.notify_all()

    # --- pulling: a thread for each broker

    def _pull(self, pull: _Pull) -> None:
        failures = 0
        while True:
            with self._state:
                for at in self._stopped & pull.offsets.keys():
                    del pull.offsets[at]
                self._state.wait_for(lambda: pull.offsets or self._closing.is_set())
                if self._closing.is_set():
                    pull.close()
                    return
                offsets = dict(pull.offsets)
            try:
                answers = self._ask(pull, offsets)
                failures = 0
            except KafkaError as error:
                if self._closing.is_set():
                    pull.close()
                    return
                if not error.retriable:
                    raise
                self._cluster.forget()
                # The broker may come back in a moment: do not spin on a refused connection meanwhile.
                self._closing.wait(self._cluster.backoff.delay(failures, self._cluster.rng))
                failures += 1
                self._let_go(pull, offsets)
                continue
            for at, answer in answers.items():
                if at in offsets:
                    self._take(pull, at, offsets[at], answer)

    def _ask(self, pull: _Pull, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Fetched]:
        connection = pull.connection
        if connection is None or not connection.usable:
            if connection is not None:
                connection.close()
            connection = self._cluster.new_connection(pull.leader)
            if not pull.use(connection):
                raise Closed(Error.network_exception, "the fetcher was closed")
        wait = self._limits.max_wait_ms / 1000 + self._cluster.request_timeout
        body = pack_fetch(offsets, self._limits)
        failure, answers = connection.send_packed(Api.FETCH, VERSION, body, read_fetched, wait).result()
        if failure:
            raise KafkaError(failure)
        return answers

    def _take(self, pull: _Pull, at: TopicPartition, offset: int, answer: Fetched) -> None:
        if answer.error:
            self._fail(pull, at, offset, answer)
            return
        if not answer.records:
            return
        next_offset = offset
        for _, header in iter_batches(answer.records):
            next_offset = max(next_offset, header.next_offset)
        if next_offset == offset:
            # Since KIP-74 the first batch comes whole, however large: a broker that sends less never will.
            raise partition_error(
                Error.message_too_large, *at, f"no whole batch at offset {offset}: raise the largest size of a fetch"
            )
        with self._state:
            # To the end of the line: where an answer is full before all have had their share, the next begins there.
            if pull.offsets.pop(at, None) is not None:
                pull.offsets[at] = next_offset
        self._put(Chunk(*at, offset, next_offset, answer.high_watermark, answer.records))

    def _fail(self, pull: _Pull, at: TopicPartition, offset: int, answer: Fetched) -> None:
        if answer.error == Error.offset_out_of_range:
            chosen = self._out_of_range(*at, offset, answer.log_start_offset)
            with self._state:
                if at in pull.offsets:
                    pull.offsets[at] = chosen
            return
        error = partition_error(answer.error, *at)
        if not error.retriable and error.code not in OUT_OF_DATE:
            raise error
        self._cluster.forget()
        self._closing.wait(self._cluster.backoff.delay(0, self._cluster.rng))
        self._let_go(pull, {at: offset})

    def _let_go(self, pull: _Pull, offsets: Mapping[TopicPartition, int]) -> None:
        with self._state:
            for at in offsets:
                offset = pull.offsets.pop(at, None)
                if offset is not None and at not in self._stopped:
                    self._leaderless[at] = offset
            self._state.notify_all()

    def _put(self, what: Chunk | KafkaError) -> None:
        while not self._closing.is_set():
            try:
                self._queue.put(what, timeout=0.5)
                return
            except queue.Full:
                pass

    def _guard(self, run: Callable[..., None], *args: object) -> None:
        """Run a thread's work; what ends it for good is raised where the chunks are taken."""
        try:
            run(*args)
        except KafkaError as error:
            if not self._closing.is_set():
                self._put(error)
        except Exception as error:
            self._put(KafkaError(Error.unknown_server_error, f"the fetcher failed: {error!r}"))


class _Pull:
    """One broker's thread, its connection, and the partitions it pulls with the offset to be read next of each."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.offsets: dict[TopicPartition, int] = {}
        self.thread: threading.Thread
        self.connection: Connection | None = None
        self._lock = threading.Lock()
        self._closed = False

    def use(self, connection: Connection) -> bool:
        """Take a new connection; False when the fetcher was closed while it was made."""
        with self._lock:
            if not self._closed:
                self.connection = connection
                return True
        connection.close()
        return False

    def close(self) -> None:
        with self._lock:
            self._closed = True
        if self.connection is not None:
            self.connection.close()
