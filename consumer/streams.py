"""Message streams (P2): blocking iterators that never end, one message at a time out of chunks of many (P7).

    for message in stream:
        work(message)          # counts as processed when the next one is asked for

What has come for a stream waits in one line, chunk by chunk, in the order in which it came. Since no partition has
more than a few chunks there, each has its turn soon, however much the others bring.

Nothing is handed out after the lease is over: another may own the partitions then, though nobody has told us yet.

`take_away` returns how far a partition was processed, and no call of next() that begins afterwards brings a message of
it. A lock lies between the two wherever a batch is begun. Within a batch there is none, since it would cost twice as
much as all else that is done for a message (measured): next() takes the next of `_rows`, which is one step, and
take_away puts another, empty iterator there. A call that had the old one in hand at that instant gets one message, as
if it had come a moment earlier; and since what is held is noted after it was taken, `take_away` may see the message
before as the one that is held, never a later one: the position is too low by one then, which is safe.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterator
from math import inf
from operator import length_hint
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from kafka_classic.client.chunk import Chunk
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.consumer.message import Message, messages_of
from kafka_classic.wire.errors import KafkaError

if TYPE_CHECKING:
    from kafka_classic.consumer.auditing import GroupAuditor

_NOTHING: tuple[Message, ...] = ()
_LOOK_S = 0.02


class ConsumerTimeout(TimeoutError):
    """No message came within consumer.timeout.ms. The stream goes on: ask it again."""


class Hand:
    """A partition that a stream hands out: everything before `position` is processed, unless a message is held."""

    __slots__ = ("at", "auditor", "begun", "chosen", "committed", "damages", "position", "shape", "stream")

    def __init__(
        self, at: TopicPartition, stream: MessageStream, committed: int | None, auditor: GroupAuditor | None = None
    ) -> None:
        self.at = at
        self.auditor = auditor
        self.stream = stream
        self.shape = messages_of(*at)
        self.committed = self.position = committed
        self.begun = False  # something was handed out
        self.chosen: int | None = None  # where auto.offset.reset had it begin, until that or more is committed
        self.damages = 0


class Lease(Protocol):
    """Until when, by time.monotonic(), nobody else can own what this consumer owns: kafka_classic.zk.lease.Lease."""

    until: float


class Forever:
    """A lease that never ends, for streams whose partitions nobody else could own."""

    until = inf


class Supply(Protocol):
    """What a stream tells those who supply it."""

    def taken(self, chunk: Chunk) -> None:
        """The chunk is being handed out: there is room for another."""

    def read_again(self, hand: Hand, offset: int) -> bool:
        """What came from this offset on is damaged; False when the partition was taken away meanwhile."""


class MessageStream:
    """One stream of messages. Belongs to one thread at a time; `timeout` in seconds is consumer.timeout.ms."""

    def __init__(self, timeout: float | None = None, lease: Lease | None = None) -> None:
        self.timeout = timeout
        self._lease: Lease = lease or Forever()
        self.supply: Supply | None = None
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._advancing = threading.Lock()
        self._line: deque[tuple[Hand, Chunk]] = deque()
        # What is being handed out: a chunk, the batch of it that comes next, the messages of the one before.
        self._hand: Hand | None = None
        self._chunk: Chunk | None = None
        self._batch = 0
        self._expected = 0  # the offset after all batches that were decoded
        self._rows: Iterator[Message] = iter(_NOTHING)
        # The message that the application has in its hands, and the thread that took it.
        self._held: Message | None = None
        self._holder = 0
        self._closed = False

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        """Return the next message; blocks until there is one.

        Raises ConsumerTimeout, StopIteration after the shutdown, and KafkaError (CORRUPT_MESSAGE) where a batch is
        damaged (P22): it is read again while the stream goes on.
        """
        if not self._closed and monotonic() < self._lease.until:
            for message in self._rows:
                self._holder = get_ident()  # first: else the holder before could commit this message as its own
                self._held = message
                return message
        return self._advance()

    # --- for those who supply the stream

    def put(self, hand: Hand, chunk: Chunk) -> None:
        """Put a chunk at the end of the line."""
        with self._lock:
            if self._closed:
                return
            if not chunk.batches and chunk.damage is None and not self._is_busy_with(hand):
                hand.position = chunk.next_offset
                if not hand.begun:
                    hand.chosen = chunk.next_offset
                return
            self._line.append((hand, chunk))
            self._arrived.notify()

    def take_away(self, hands: Collection[Hand]) -> dict[Hand, int | None]:
        """Hand out nothing of these partitions any more, and return how far each was processed."""
        with self._lock:
            positions = {hand: self._position(hand) for hand in hands}
            self._forget(positions)
            return positions

    def begin_again(self, hand: Hand, offset: int) -> None:
        """Forget what is here of a partition, of which all before `offset` is processed."""
        with self._lock:
            self._forget({hand})
            hand.position = offset

    def position(self, hand: Hand) -> int | None:
        """Return up to where a partition is processed; None while that is not known."""
        with self._lock:
            return self._position(hand)

    def committed(self, hand: Hand, position: int, chosen: int | None) -> None:
        """Note what was committed of a partition; a beginning that was chosen meanwhile is still to be."""
        with self._lock:
            hand.committed = position
            if hand.chosen == chosen:
                hand.chosen = None

    def finish_held(self, holder: int) -> None:
        """Count the message that this thread holds as processed."""
        with self._lock:
            if self._holder == holder:
                self._finish_held()

    def close(self) -> None:
        """End the iteration, also one that waits."""
        with self._lock:
            self._closed = True
            self._line.clear()
            self._arrived.notify_all()

    # --- inside

    def _position(self, hand: Hand) -> int | None:
        if hand is self._hand and self._held is not None:
            return self._held.offset
        return hand.position

    def _is_busy_with(self, hand: Hand) -> bool:
        return hand is self._hand or any(other is hand for other, _ in self._line)

    def _forget(self, hands: Collection[Hand]) -> None:
        if any(hand in hands for hand, _ in self._line):
            self._line = deque(one for one in self._line if one[0] not in hands)
        if self._hand in hands:
            self._hand = self._chunk = self._held = None
            self._rows = iter(_NOTHING)

    def _finish_held(self) -> None:
        hand, held = self._hand, self._held
        if hand is not None and held is not None:
            # After its last message a whole batch is done: in a classic log the next one begins further on (P6).
            hand.position = held.next_offset if length_hint(self._rows) else self._expected
        self._held = None  # also if its partition was taken away meanwhile

    def _advance(self) -> Message:
        end = None if self.timeout is None else monotonic() + self.timeout
        with self._advancing:
            while True:
                with self._lock:
                    self._finish_held()  # the next one is asked for
                    while (found := self._look()) is None:
                        self._wait(end)
                    if isinstance(found, Message):
                        return found
                hand, chunk, batch, expected = found
                if not batch and self.supply is not None:
                    self.supply.taken(chunk)
                # Without the lock: others may take the partition away while a large batch is decoded.
                try:
                    rows, after = _decode(hand, chunk, batch, expected)
                except KafkaError:
                    if self.supply is None or self.supply.read_again(hand, expected):
                        raise
                    continue
                hand.damages = 0
                with self._lock:
                    if self._hand is hand and self._chunk is chunk:
                        hand.begun = True
                        if hand.auditor is not None:
                            hand.auditor.handed(chunk, chunk.batches[batch][1], expected)
                        self._rows = iter(rows)
                        self._batch = batch + 1
                        self._expected = after

    def _look(self) -> Message | tuple[Hand, Chunk, int, int] | None:
        """Return the next message that is decoded, else the batch to be decoded next, else None: wait."""
        if self._closed:
            raise StopIteration
        if monotonic() >= self._lease.until:
            return None
        for message in self._rows:
            self._holder = get_ident()
            self._held = message
            return message
        hand, chunk = self._hand, self._chunk
        while True:
            if hand is not None and chunk is not None:
                if self._batch < len(chunk.batches) + (chunk.damage is not None):
                    hand.position = self._expected if self._batch else hand.position
                    return hand, chunk, self._batch, self._expected
                hand.position = chunk.next_offset
                self._hand = self._chunk = None
            if not self._line:
                return None
            hand, chunk = self._hand, self._chunk = self._line.popleft()
            self._batch = 0
            self._expected = chunk.offset

    def _wait(self, end: float | None) -> None:
        # Nobody tells when the lease is renewed: it is looked at now and then while it is over.
        longest = None if monotonic() < self._lease.until else _LOOK_S
        if end is not None:
            left = end - monotonic()
            if left <= 0:
                raise ConsumerTimeout(f"no message came in {self.timeout:g} seconds")
            longest = left if longest is None else min(left, longest)
        self._arrived.wait(longest)


def _decode(hand: Hand, chunk: Chunk, batch: int, expected: int) -> tuple[list[Message], int]:
    """Return the messages of one batch and the offset after it; the checksum is verified (P22)."""
    if batch == len(chunk.batches):
        assert chunk.damage is not None
        raise chunk.damaged(expected, chunk.damage)
    pos, header = chunk.batches[batch]
    return chunk.decode(pos, header, expected, hand.shape), max(expected, header.next_offset)
