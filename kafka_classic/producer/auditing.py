"""A producer that counts what it sends, by topic, partition and window of time, and tells it to `__audit` (P25).

Every batch bears the producer's id and numbers, whatever its acks, and holds messages of one window only: so each
message has a name in the log without a byte of its own, and a log is counted by the headers of its batches.

Counted is a message when it is acknowledged (with acks=0: when it is sent). A window is opened by an event *before* the
first message of it is sent, and closed by one that says how many there were. So a producer that dies leaves windows
that are open for ever, and no audit takes them for complete.

What happens for a message is done in columns when its batch is packed; the rest happens once a batch, or on a thread.
"""

from __future__ import annotations

import logging
import secrets
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.fingerprint import Fingerprint, fingerprint, words_of
from kafka_classic.client.monitor import Monitor
from kafka_classic.client.monitoring import PRODUCER, Event, Share
from kafka_classic.client.producer_id import ProducerId
from kafka_classic.client.spans import Run, add_run, in_order
from kafka_classic.producer.batch import Batch
from kafka_classic.producer.decisions import Decisions
from kafka_classic.producer.errors import WindowShut
from kafka_classic.producer.gathering import Gathering
from kafka_classic.producer.lane import Lane
from kafka_classic.producer.packing import Packer
from kafka_classic.producer.settings import ProducerSettings
from kafka_classic.records.encode import NewRecord
from kafka_classic.wire.errors import KafkaError

log = logging.getLogger(__name__)

_HEAD = struct.Struct(">I")  # the CRC, at 17
_NUMBERS = struct.Struct(">qqhii")  # from 35 on: max timestamp, producer id, epoch, first number, count
_TICK_S = 1.0
_PARTING_S = 15.0  # for the last events, while brokers fail over
_AGAIN_S = 0.2

Window = tuple[str, int]  # a topic, and when the window begins


class Counted(NamedTuple):
    """What was counted of a batch when it was packed."""

    content: Fingerprint  # numbered from 0
    bytes: int


class Fate(NamedTuple):
    """A batch that is decided, or that goes on under other numbers."""

    window: Window
    partition: int
    producer: int
    run: Run
    kind: str  # acknowledged, failed, replaced
    counted: Counted
    crc: int
    delay: int


@dataclass(slots=True)
class Account:
    """A window that this producer counts."""

    shares: dict[tuple[int, int], Share] = field(default_factory=dict)  # by partition and producer id
    state: str = "open"
    revision: int = 0
    closed_once: bool = False
    dirty: bool = False
    touched: float = 0.0

    def add(self, fate: Fate) -> None:
        share = self.shares.get((fate.partition, fate.producer))
        if share is None:
            share = self.shares[fate.partition, fate.producer] = Share(fate.partition, fate.producer)
        if fate.kind == "acknowledged":
            run, tally, content = fate.run, share.tally, fate.counted.content
            number = fate.crc, fate.crc, fate.crc * (run.first + 1)
            assert tally.content is not None
            assert tally.batches is not None
            tally.count += run.size
            tally.bytes += fate.counted.bytes
            tally.content = tally.content.plus(content.moved(run.first))
            tally.batches = tally.batches.plus(Fingerprint(*number))
            tally.slowest = max(tally.slowest, fate.delay)
            tally.delays += fate.delay * run.size
            add_run(tally.runs, run)
            share.late += run.size if self.closed_once else 0
        else:
            add_run(share.failed if fate.kind == "failed" else share.replaced, fate.run)
        self.dirty = True


class Auditor:
    """Counts for one producer. begin(), began() and settled() are called under the sender's lock."""

    def __init__(
        self, cluster: Cluster, settings: ProducerSettings, producer: ProducerId, clock: Callable[[], float] = time.time
    ) -> None:
        self.producer = producer
        self.window_ms = settings.audit_window_ms
        self._opened: dict[Window, None] = {}  # told to __audit; read without the lock
        self._grace = settings.audit_grace_ms / 1000
        self._acks = settings.acks
        self._client = settings.client_id
        self._server = socket.gethostname()
        self.source = f"{self._server}-{producer.id}-{secrets.token_hex(3)}"
        self._clock = clock
        self._monitor = Monitor(cluster)
        self._fates: deque[Fate] = deque()
        self._undecided: dict[Window, int] = {}
        self._lock = threading.Lock()  # over the accounts
        self._accounts: dict[Window, Account] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-producer-auditor", daemon=True)
        self._thread.start()

    # --- what the sender is built of

    def gathering(self, *parts: object) -> Gathering:
        return _WindowedGathering(self, *parts)

    def decisions(self, *parts: object) -> Decisions:
        return _AuditedDecisions(self, *parts)

    def packer(self, settings: ProducerSettings) -> Packer:
        return _CountingPacker(self, settings)

    # --- counting

    def open(self, topic: str, timestamp: int) -> None:
        """Tell of a window before anything of it is sent: waits for that, but keeps no message back if it fails."""
        window = topic, timestamp - timestamp % self.window_ms
        with self._lock:
            if window in self._opened:
                return
            account = self._accounts.setdefault(window, Account())
            account.state = "open"
            account.touched = self._clock()
            account.dirty = True
            self._publish([window], urgent=True)
            self._opened[window] = None

    def begin(self, topic: str, timestamp: int) -> Window:
        """The window of a batch that begins now. Raises WindowShut if nobody was told of that window yet."""
        window = topic, timestamp - timestamp % self.window_ms
        # First this and then a look; who closes a window does it the other way round. So one of both sees the other.
        self.began(window)
        if window not in self._opened:
            self._decided(window)
            raise WindowShut(lambda: self.open(topic, timestamp))
        return window

    def began(self, window: Window) -> None:
        self._undecided[window] = self._undecided.get(window, 0) + 1

    def _decided(self, window: Window) -> None:
        left = self._undecided[window] - 1
        if left:
            self._undecided[window] = left
        else:
            del self._undecided[window]

    def settled(self, batch: Batch, kind: str) -> None:
        """Note what became of a batch, or of the numbers it had."""
        window, counted, data = batch.window, batch.counted, batch.data
        if window is None:
            return
        if counted is not None and data is not None:
            (crc,) = _HEAD.unpack_from(data, 17)
            latest, producer, epoch, first, count = _NUMBERS.unpack_from(data, 35)
            offset = batch.base_offset
            run = Run(epoch, first, first + count, offset, offset + count - 1 if offset >= 0 else -1)
            delay = max(0, int(self._clock() * 1000) - latest)
            self._fates.append(Fate(window, batch.lane.at[1], producer, run, kind, counted, crc, delay))
        if kind != "replaced":
            self._decided(window)

    def close(self) -> None:
        """Tell of all windows for the last time. Everything must be decided before."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._thread.join()
        with self._lock:
            self._count()
            # What is still undecided was given up without an answer: its windows stay open, and so unknown.
            deadline = time.monotonic() + _PARTING_S
            while not self._close_windows(lambda window, _: window not in self._undecided):
                if time.monotonic() >= deadline:
                    break
                time.sleep(_AGAIN_S)

    # --- inside

    def _run(self) -> None:
        while not self._stopping.wait(min(_TICK_S, self.window_ms / 4000)):
            try:
                with self._lock:
                    self._tick()
            except Exception:
                log.exception("the audit of this producer stumbled; windows that it cannot tell of are unknown")

    def _tick(self) -> None:
        now = self._clock()
        self._count()
        ripe = [
            window
            for window, account in self._accounts.items()
            if window not in self._undecided
            and now >= max((window[1] + self.window_ms) / 1000, account.touched) + self._grace
        ]
        for window in ripe:
            self._opened.pop(window, None)
        # No batch begins there from now on. One that began meanwhile is undecided, or decided and not counted yet.
        quiet = {window for window in ripe if window not in self._undecided}
        self._count()
        self._close_windows(lambda window, _: window in quiet)
        self._open_next(now)

    def _count(self) -> None:
        """Take what was decided into the accounts."""
        now = self._clock()
        while self._fates:
            fate = self._fates.popleft()
            account = self._accounts.setdefault(fate.window, Account())
            account.touched = now
            if account.state == "closed":
                account.state = "open"
            account.add(fate)

    def _close_windows(self, choose: Callable[[Window, Account], bool]) -> bool:
        """Tell of the windows that are chosen, and of corrections; False if that could not be done."""
        due = []
        for window, account in self._accounts.items():
            if account.state == "open" and choose(window, account):
                account.state = "closed"
                account.dirty = True
                self._opened.pop(window, None)
            if account.dirty and (account.state == "closed" or account.closed_once):
                due.append(window)
        if not self._publish(due):
            return False
        for window in due:
            self._accounts[window].closed_once |= self._accounts[window].state == "closed"
        return True

    def _open_next(self, now: float) -> None:
        """Tell of the next window of what is being sent now, so that nobody has to wait for it then."""
        present = int(now * 1000) - int(now * 1000) % self.window_ms
        if now * 1000 < present + self.window_ms / 2:
            return
        due = []
        for topic, window in list(self._accounts):
            following = topic, present + self.window_ms
            if window == present and following not in self._accounts and self._accounts[topic, present].shares:
                self._accounts[following] = Account(dirty=True, touched=now)
                due.append(following)
        if due and self._publish(due):
            self._opened |= dict.fromkeys(due)

    def _publish(self, windows: list[Window], *, urgent: bool = False) -> bool:
        events = [self._event(window, self._accounts[window]) for window in windows]
        if not self._monitor.publish(events, urgent=urgent):
            return False
        for window in windows:
            self._accounts[window].dirty = False
        return True

    def _event(self, window: Window, account: Account) -> Event:
        account.revision += 1
        for share in account.shares.values():
            share.tally.runs = in_order(share.tally.runs)
        return Event(
            PRODUCER,
            self.source,
            *window,
            self.window_ms,
            account.state,
            account.revision,
            sorted({self.producer.id, *(producer for _, producer in account.shares)}),
            [share for _, share in sorted(account.shares.items())],
            self._server,
            self._client,
            self._acks,
        )


class _WindowedGathering(Gathering):
    """Batches of one window each."""

    def __init__(self, auditor: Auditor, *parts: object) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self._auditor = auditor
        self._window_ms = auditor.window_ms

    def append(self, lane: Lane, record: NewRecord, size: int) -> tuple[Batch, int, bool]:
        batch = lane.open
        if batch is not None and (window := batch.window) and 0 <= record[3] - window[1] < self._window_ms:
            placed = super().append(lane, record, size)
            if placed[0] is not batch:  # that one was full; as long as it is undecided the window does not close
                placed[0].window = window
                self._auditor.began(window)
            return placed
        window = self._auditor.begin(lane.at[0], record[3])
        if batch is not None:
            self.close(lane)
        fresh, index, closed = super().append(lane, record, size)
        fresh.window = window
        return fresh, index, closed or batch is not None

    def new_batch(self, lane: Lane, records: list[NewRecord], size: int) -> Batch:
        window = self._auditor.begin(lane.at[0], records[0][3]) if records else None
        batch = super().new_batch(lane, records, size)
        batch.window = window
        return batch


class _CountingPacker(Packer):
    """Counts a batch while its messages are there."""

    def __init__(self, auditor: Auditor, settings: ProducerSettings) -> None:
        super().__init__(settings)
        self._auditor = auditor

    def pack(self, lane: Lane, batch: Batch) -> None:
        if batch.data is None:
            records = batch.records
            keys, values, _, _ = zip(*records, strict=True)
            size = sum(map(len, filter(None, values))) + sum(map(len, filter(None, keys)))
            batch.counted = Counted(fingerprint(words_of(records)), size)
        elif batch.producer is not lane.producer:
            self._auditor.settled(batch, "replaced")
        super().pack(lane, batch)


class _AuditedDecisions(Decisions):
    """Tells of each batch that is decided."""

    def __init__(self, auditor: Auditor, *parts: object) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self._auditor = auditor

    def settle(self, batch: Batch, error: KafkaError | None) -> None:
        if not batch.done:
            self._auditor.settled(batch, "acknowledged" if error is None else "failed")
        super().settle(batch, error)
