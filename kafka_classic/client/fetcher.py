"""Records out of partitions: one thread for each broker that leads some, long polls, a buffer kept ready (P7).

            add                  leader found
    (new) -------> leaderless ------------------> pulled by that broker's thread --(stop)--> (gone)
                       ^                                      |
                       '--- leader moved, connection lost, ---'
                            an error of this partition: after a pause

Each thread asks its broker for all its partitions in one request and hands on what comes, still encoded. A partition
of which `chunks` chunks are held and not yet taken is left out of the next request, and holds up no other: while the
application works on one answer the next is under way, and when it stops reading a partition, so do we. Offsets that
are not known yet (EARLIEST, LATEST) are asked for by the same thread, all of a broker in one request.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from types import TracebackType

from kafka_classic.client.chunk import Chunk, read_chunk
from kafka_classic.client.cluster import OUT_OF_DATE, Cluster
from kafka_classic.client.connection import Connection
from kafka_classic.client.errors import Closed
from kafka_classic.client.fetch_packed import VERSION, Fetched, FetchLimits, pack_fetch, read_fetched
from kafka_classic.client.leaders import TopicPartition, partition_error
from kafka_classic.client.offsets import list_offsets_of
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError

log = logging.getLogger(__name__)

_CHUNKS = 2
_BUFFER_BYTES = 64 << 20
_SMALLEST_SHARE = 16 << 10
_SHORT_POLL_S = 0.005
_PATIENCE_S = 2.0  # for a thread that is inside a connect, which nothing interrupts

# What to do about an offset that the log no longer or not yet has: return another one (or EARLIEST, LATEST), or raise.
OutOfRange = Callable[[str, int, int, int], int]


def fail_out_of_range(topic: str, partition: int, offset: int, log_start: int) -> int:
    raise partition_error(
        Error.offset_out_of_range,
        topic,
        partition,
        f"offset {offset} is not in the log, which begins at {log_start}: read from the beginning or from the end",
    )


class Fetcher:
    """Pulls partitions from their leaders from the given offsets on, until it is closed.

    Chunks go to `sink`, called under a lock: it must only put them somewhere. Without one, next() returns them. A sink
    says taken(chunk) when it is done with one. `settled` is called without a lock after unknown offsets were found and
    their chunks (without batches) were given to the sink.

    A `lasting` fetcher never gives up: what another would raise from next() it logs, once, and tries again.
    """

    def __init__(
        self,
        cluster: Cluster,
        offsets: Mapping[TopicPartition, int] | None = None,
        limits: FetchLimits | None = None,
        *,
        out_of_range: OutOfRange = fail_out_of_range,
        chunks: int = _CHUNKS,
        buffer_bytes: int = _BUFFER_BYTES,
        sink: Callable[[Chunk], None] | None = None,
        settled: Callable[[], None] | None = None,
        lasting: bool = False,
    ) -> None:
        self._cluster = cluster
        self._limits = limits or FetchLimits()
        self._out_of_range = out_of_range
        self._chunks = chunks
        self._buffer_bytes = buffer_bytes
        self._queue: queue.SimpleQueue[Chunk | KafkaError] = queue.SimpleQueue()
        self._sink = sink or self._queue.put
        self._settled = settled
        self._lasting = lasting
        self._lock = threading.Lock()
        self._wanted = threading.Condition(self._lock)
        self._places: dict[TopicPartition, _Place] = {}
        self._leaderless: dict[TopicPartition, _Place] = {}
        self._pulls: dict[int, _Pull] = {}
        self._closing = threading.Event()
        self.add(offsets or {})
        self._finder = threading.Thread(
            target=self._guard, args=(self._find_leaders,), name="leader-finder", daemon=True
        )
        self._finder.start()

    def add(self, offsets: Mapping[TopicPartition, int], delay: float = 0.0) -> None:
        """Read these too, from an offset, EARLIEST or LATEST on; one that is being read already begins anew there."""
        due = time.monotonic() + delay
        with self._lock:
            for at, offset in offsets.items():
                self._remove(at)
                self._places[at] = self._leaderless[at] = _Place(at, offset, due)
            self._wanted.notify()

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Read these no more. Does not wait for a broker; nothing of them is handed on after this returns."""
        with self._lock:
            for at in partitions:
                self._remove(at)

    def next(self, timeout: float | None) -> Chunk | None:
        """Return the next chunk, or None when nothing came in `timeout` seconds; raises what went wrong for good."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                found = self._queue.get(timeout=None if end is None else max(0.0, end - time.monotonic()))
            except queue.Empty:
                return None
            if isinstance(found, KafkaError):
                raise found
            if found.source.alive:
                self.taken(found)
                return found

    def taken(self, chunk: Chunk) -> None:
        """Note that a chunk is no longer held, so that the next of its partition may be asked for."""
        place = chunk.source
        if not chunk.batches:
            return
        with self._lock:
            place.held -= 1
            if place.alive and place.held == self._chunks - 1 and place.pull is not None:
                place.pull.ready.notify()

    def close(self) -> None:
        """Stop all threads, also those inside a long poll."""
        self._closing.set()
        with self._lock:
            for place in self._places.values():
                place.alive = False
            self._wanted.notify_all()
            pulls = list(self._pulls.values())
            for pull in pulls:
                pull.ready.notify_all()
        for pull in pulls:
            pull.close()
        self._finder.join(_PATIENCE_S)
        for pull in pulls:
            pull.thread.join(_PATIENCE_S)

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _remove(self, at: TopicPartition) -> None:
        place = self._places.pop(at, None)
        if place is not None:
            place.alive = False
            self._leaderless.pop(at, None)
            if place.pull is not None:
                del place.pull.places[at]

    # --- finding leaders: the finder's thread

    def _find_leaders(self) -> None:
        failures = 0
        while (due := self._await_leaderless()) is not None:
            try:
                if self._lasting:
                    leaders = self._cluster.leaders_now(due)
                else:
                    leaders = self._cluster.retrying(lambda wanted=due: self._cluster.leaders_now(wanted))  # type: ignore[misc]
                failures = 0
            except KafkaError as error:
                if not self._lasting or self._closing.is_set():
                    raise
                if not failures:
                    log.warning("no broker tells who leads the %d partitions looked for: %s", len(due), error)
                self._closing.wait(self._cluster.backoff.delay(failures, self._cluster.rng))
                failures += 1
                continue
            troubles: list[tuple[_Place, KafkaError]] = []
            with self._lock:
                if self._closing.is_set():
                    return
                for at, leader in leaders.items():
                    place = self._leaderless.get(at)
                    if place is None:
                        continue
                    if isinstance(leader, KafkaError):
                        troubles.append((place, leader))
                    else:
                        del self._leaderless[at]
                        self._give(leader, place)
            self._put_off(troubles)

    def _await_leaderless(self) -> list[TopicPartition] | None:
        with self._lock:
            while not self._closing.is_set():
                now = time.monotonic()
                due = [at for at, place in self._leaderless.items() if place.due <= now]
                if due:
                    return due
                first = min((place.due for place in self._leaderless.values()), default=None)
                self._wanted.wait(None if first is None else first - now)
        return None

    def _give(self, leader: int, place: _Place) -> None:
        pull = self._pulls.get(leader)
        if pull is None:
            pull = self._pulls[leader] = _Pull(leader, threading.Condition(self._lock))
            pull.thread = threading.Thread(
                target=self._guard, args=(self._pull, pull), name=f"fetch-from-{leader}", daemon=True
            )
            pull.thread.start()
        place.pull = pull
        pull.places[place.at] = place
        pull.ready.notify()

    # --- pulling: a thread for each broker

    def _pull(self, pull: _Pull) -> None:
        while (asked := self._choose(pull)) is not None:
            try:
                self._ask(pull, asked)
                if pull.failures:
                    log.info("broker %d answers again", pull.leader)
                    pull.failures = 0
            except KafkaError as error:
                if self._closing.is_set():
                    break
                if not error.retriable and not self._lasting:
                    raise
                if not pull.failures:
                    log.warning("%s; the leaders of %d partitions are looked for anew", error, len(asked))
                self._cluster.forget()
                with self._lock:
                    for at, (place, _) in asked.items():
                        if pull.places.get(at) is place:
                            self._let_go(place)
                # It may come back in a moment: do not spin on a refused connection meanwhile.
                self._closing.wait(self._cluster.backoff.delay(pull.failures, self._cluster.rng))
                pull.failures += 1
        pull.close()

    def _choose(self, pull: _Pull) -> dict[TopicPartition, tuple[_Place, int]] | None:
        """Wait until there is a partition to ask for, and return all that are not full; None at the end."""
        with self._lock:
            while not self._closing.is_set():
                asked = {at: (place, place.offset) for at, place in pull.places.items() if place.held < self._chunks}
                if asked and pull.quiet and asked.keys() <= pull.asked:
                    # The last answer was empty, and was not waited for because others were full. Ask again when one
                    # of those has room, else in a while.
                    longest = max(self._limits.max_wait_ms / 1000, _SHORT_POLL_S)
                    pull.ready.wait(min(longest, _SHORT_POLL_S * (1 << min(pull.quiet, 10))))
                    pull.asked = set()
                elif asked:
                    pull.asked = set(asked)
                    return asked
                else:
                    pull.quiet = 0
                    pull.ready.wait()
        return None

    def _ask(self, pull: _Pull, asked: dict[TopicPartition, tuple[_Place, int]]) -> None:
        connection = self._connection(pull)
        unknown = {at: offset for at, (_, offset) in asked.items() if offset < 0}
        if unknown:
            self._settle(connection, pull, asked, unknown)
        offsets = {at: offset for at, (_, offset) in asked.items() if offset >= 0}
        if not offsets:
            return
        # A partition that is full now may have room long before a poll ends: then nobody must wait for the poll.
        waits = 0 if len(asked) < len(pull.places) else self._limits.max_wait_ms
        share = self._buffer_bytes // (self._chunks * max(1, len(self._places)))
        limits = self._limits._replace(
            max_wait_ms=waits,
            max_bytes=min(self._limits.max_bytes, self._buffer_bytes),
            partition_max_bytes=min(self._limits.partition_max_bytes, max(share, _SMALLEST_SHARE)),
        )
        wait = waits / 1000 + self._cluster.request_timeout
        failure, answers = connection.send_packed(
            Api.FETCH, VERSION, pack_fetch(offsets, limits), read_fetched, wait
        ).result()
        if failure:
            raise KafkaError(failure)
        first = next(iter(offsets))
        troubles = []
        came = False
        for at, answer in answers.items():
            if at in offsets:
                place, offset = asked[at]
                if answer.error:
                    troubles.append((place, partition_error(answer.error, *at), offset, answer.log_start_offset))
                else:
                    came |= self._take(pull, place, offset, answer, at == first)
        pull.quiet = 0 if came or waits else pull.quiet + 1
        self._fail(troubles)

    def _connection(self, pull: _Pull) -> Connection:
        connection = pull.connection
        if connection is None or not connection.usable:
            if connection is not None:
                connection.close()
            connection = self._cluster.new_connection(pull.leader)
            if not pull.use(connection):
                raise Closed(Error.network_exception, "the fetcher was closed")
        return connection

    def _settle(
        self,
        connection: Connection,
        pull: _Pull,
        asked: dict[TopicPartition, tuple[_Place, int]],
        unknown: Mapping[TopicPartition, int],
    ) -> None:
        """Find out the offsets that EARLIEST and LATEST stand for, and tell the sink where reading begins."""
        outcomes = list_offsets_of(connection, unknown)
        troubles = []
        with self._lock:
            for at in unknown:
                place, was = asked.pop(at)
                outcome = outcomes.get(at)
                if outcome is None or outcome.error:
                    code = Error.unknown_server_error if outcome is None else outcome.error
                    troubles.append((place, partition_error(code, *at)))
                elif place.alive and place.offset == was:
                    place.offset = offset = outcome.value.offset
                    asked[at] = place, offset
                    self._sink(Chunk(*at, offset, offset, -1, b"", (), None, place))
        self._put_off(troubles)
        if self._settled is not None:
            self._settled()

    def _take(self, pull: _Pull, place: _Place, offset: int, answer: Fetched, first: bool) -> bool:
        """Hand on what came of one partition; False when nothing did."""
        if not answer.records:
            self._well(place)
            return False
        # Its own memory: a chunk that is held long must not hold the whole answer, of up to 50 MB.
        chunk = read_chunk(*place.at, offset, answer.high_watermark, bytes(answer.records), place)
        if chunk.next_offset == offset and chunk.damage is None:
            # Since KIP-74 the first batch of an answer comes whole, however large. Others may be cut: their turn comes.
            if first:
                self._put_off(
                    [
                        (
                            place,
                            partition_error(
                                Error.message_too_large,
                                *place.at,
                                f"no whole batch at offset {offset}: raise the largest size of a fetch",
                            ),
                        )
                    ]
                )
            return False
        self._well(place)
        with self._lock:
            if not place.alive or place.offset != offset:
                return False
            place.offset = chunk.next_offset
            place.held += 1 if chunk.batches else 0
            if chunk.damage is not None:
                # Where the next batch begins nobody can tell: its reader sees the damage, and may add it again.
                del pull.places[place.at]
                place.pull = None
            else:
                # To the end of the line: where an answer is full before all had their share, the next begins there.
                pull.places[place.at] = pull.places.pop(place.at)
            self._sink(chunk)
        return True

    # --- troubles

    def _fail(self, failed: list[tuple[_Place, KafkaError, int, int]]) -> None:
        troubles = []
        for place, error, offset, log_start in failed:
            if error.code != Error.offset_out_of_range:
                troubles.append((place, error))
                continue
            chosen = self._out_of_range(*place.at, offset, log_start)
            with self._lock:
                if place.alive and place.offset == offset:
                    place.offset = chosen
            if place.failures:
                troubles.append((place, error))
            place.failures += 1
        self._put_off(troubles)

    def _put_off(self, troubles: list[tuple[_Place, KafkaError]]) -> None:
        """Look for the leaders of these after a pause, longer each time; raises what will not pass, unless lasting."""
        if not troubles:
            return
        now = time.monotonic()
        news: dict[Error, list[tuple[_Place, KafkaError]]] = defaultdict(list)
        for place, error in troubles:
            if not self._lasting and not self._may_pass(place, error, now):
                raise error
            if error.code in OUT_OF_DATE:
                self._cluster.forget()
            if place.trouble != error.code:
                news[error.code].append((place, error))
                place.trouble = error.code
            place.due = now + self._cluster.backoff.delay(place.failures, self._cluster.rng)
            place.failures += 1
            place.lost_at = place.lost_at or now
        with self._lock:
            for place, _ in troubles:
                if place.alive:
                    self._let_go(place)
        for code, told in news.items():
            # That a leader has moved is everyday; and 1,000 partitions in the same trouble are one line.
            level = logging.INFO if code == Error.not_leader_or_follower else logging.WARNING
            more = f" (and {len(told) - 1} more partitions)" if len(told) > 1 else ""
            log.log(level, "%s%s; trying again", told[0][1], more)

    def _may_pass(self, place: _Place, error: KafkaError, now: float) -> bool:
        # A broker's answer that a partition is not there (yet) may pass; our own refusal of a name does not.
        passing = error.retriable or (error.code in OUT_OF_DATE and type(error) is KafkaError)
        return passing and (place.lost_at is None or now - place.lost_at < self._cluster.deadline)

    def _well(self, place: _Place) -> None:
        if place.trouble is not None:
            log.info("partition %d of %r is read again", place.at[1], place.at[0])
        place.trouble = None
        place.failures = 0
        place.lost_at = None

    def _let_go(self, place: _Place) -> None:
        if place.pull is not None:
            del place.pull.places[place.at]
            place.pull = None
        self._leaderless[place.at] = place
        self._wanted.notify()

    def _guard(self, run: Callable[..., None], *args: object) -> None:
        """Run a thread's work; what ends it for good is raised where the chunks are taken."""
        while not self._closing.is_set():
            try:
                run(*args)
                return
            except KafkaError as error:
                failed = error
            except Exception as error:
                if not self._closing.is_set():
                    log.exception("the fetcher failed")
                failed = KafkaError(Error.unknown_server_error, f"the fetcher failed: {error!r}")
            if not self._lasting:
                if not self._closing.is_set():
                    self._queue.put(failed)
                return
            self._closing.wait(self._cluster.backoff.longest)


class _Place:
    """A partition from its add to its stop: added again later it is another place, and late answers find it not."""

    __slots__ = ("alive", "at", "due", "failures", "held", "lost_at", "offset", "pull", "trouble")

    def __init__(self, at: TopicPartition, offset: int, due: float) -> None:
        self.at = at
        self.offset = offset  # to be read next; EARLIEST or LATEST while that is not known
        self.held = 0
        self.alive = True
        self.pull: _Pull | None = None
        self.due = due
        self.failures = 0
        self.trouble: Error | None = None
        self.lost_at: float | None = None


class _Pull:
    """One broker's thread, its connection, and the partitions it pulls; those asked for longest ago come first."""

    def __init__(self, leader: int, ready: threading.Condition) -> None:
        self.leader = leader
        self.ready = ready
        self.places: dict[TopicPartition, _Place] = {}
        self.asked: set[TopicPartition] = set()
        self.quiet = 0
        self.failures = 0
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
