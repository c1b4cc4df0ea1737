"""A stream hands out what was put into it, one message at a time, and knows at every moment what was processed."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from kafka_classic.client.chunk import Chunk, read_chunk
from kafka_classic.consumer.message import Message
from kafka_classic.consumer.streams import ConsumerTimeout, Forever, Hand, MessageStream
from kafka_classic.records.batch import CONTROL, seal
from kafka_classic.records.encode import encode_batch
from kafka_classic.testing.waiting import until
from kafka_classic.wire.errors import Error, KafkaError
from tests.consumer.memory import LONG


def batch(base: int, count: int = 10) -> bytes:
    return encode_batch(
        [
            (b"%d" % i, b"value %d" % i, (("n", b"%d" % i),) if i % 7 == 0 else (), 1000 + i)
            for i in range(base, base + count)
        ],
        base_offset=base,
    )


def chunk_of(hand: Hand, offset: int, *batches: bytes) -> Chunk:
    return read_chunk(*hand.at, offset, 10**6, b"".join(batches))


class Supplier:
    """Counts what a stream says to those who supply it."""

    def __init__(self) -> None:
        self.taken_chunks: list[Chunk] = []
        self.again: list[tuple[Hand, int]] = []

    def taken(self, chunk: Chunk) -> None:
        self.taken_chunks.append(chunk)

    def read_again(self, hand: Hand, offset: int) -> bool:
        hand.stream.begin_again(hand, offset)
        self.again.append((hand, offset))
        return True


@pytest.fixture
def stream() -> MessageStream:
    made = MessageStream(timeout=0.0)
    made.supply = Supplier()
    return made


@pytest.fixture
def hand(stream: MessageStream) -> Hand:
    return Hand(("t", 3), stream, 0)


def test_a_message_comes_whole_with_where_it_lies_and_where_to_resume(stream: MessageStream, hand: Hand) -> None:
    stream.put(hand, chunk_of(hand, 0, batch(0)))
    found = [next(stream) for _ in range(10)]
    assert found[0] == Message("t", 3, 0, b"0", b"value 0", (("n", b"0"),), 1000)
    assert found[5] == Message("t", 3, 5, b"5", b"value 5", (), 1005)
    assert [message.offset for message in found] == list(range(10))
    assert found[9].next_offset == 10


def test_p2_a_stream_blocks_until_something_new_is_there(stream: MessageStream, hand: Hand) -> None:
    stream.timeout = None
    got: list[Message] = []
    reader = threading.Thread(target=lambda: got.append(next(stream)), daemon=True)
    reader.start()
    assert not got
    stream.put(hand, chunk_of(hand, 0, batch(0)))
    reader.join(LONG)
    assert got[0].offset == 0


def test_a_message_is_processed_when_the_next_one_is_asked_for(stream: MessageStream, hand: Hand) -> None:
    stream.put(hand, chunk_of(hand, 0, batch(0), batch(10)))
    assert stream.position(hand) == 0
    for expected in range(20):
        assert next(stream).offset == expected
        assert stream.position(hand) == expected  # it is still in the application's hands
    with pytest.raises(ConsumerTimeout):
        next(stream)
    assert stream.position(hand) == 20


def test_only_the_thread_that_holds_a_message_can_declare_it_processed(stream: MessageStream, hand: Hand) -> None:
    stream.put(hand, chunk_of(hand, 0, batch(0)))
    next(stream)
    other = threading.Thread(target=lambda: stream.finish_held(threading.get_ident()))
    other.start()
    other.join()
    assert stream.position(hand) == 0
    stream.finish_held(threading.get_ident())
    assert stream.position(hand) == 1
    stream.finish_held(threading.get_ident())
    assert stream.position(hand) == 1
    assert next(stream).offset == 1
    assert stream.position(hand) == 1


def test_after_the_last_message_of_a_batch_the_whole_batch_is_done(stream: MessageStream, hand: Hand) -> None:
    # As in a classic log (P6), where the next batch begins at the end of this one, counted in bytes.
    classic = bytearray(batch(0))
    seal(classic, last_offset_delta=len(classic) - 1)
    stream.put(hand, read_chunk("t", 3, 0, 10**6, bytes(classic)))
    for _ in range(10):
        next(stream)
    assert stream.position(hand) == 9
    stream.finish_held(threading.get_ident())
    assert stream.position(hand) == len(classic)


def test_reading_begins_in_the_middle_of_a_batch(stream: MessageStream, hand: Hand) -> None:
    stream.put(hand, chunk_of(hand, 7, batch(0), batch(10)))
    assert [next(stream).offset for _ in range(13)] == list(range(7, 20))


def test_a_batch_without_messages_moves_the_position_on(stream: MessageStream, hand: Hand) -> None:
    control = bytearray(batch(10, 1))
    seal(control, attributes=CONTROL)
    stream.put(hand, chunk_of(hand, 0, batch(0), bytes(control)))
    assert [message.offset for message in _all(stream)] == list(range(10))
    assert stream.position(hand) == 11


def _all(stream: MessageStream) -> list[Message]:
    """Everything that comes before the timeout."""
    found: list[Message] = []
    try:
        while True:
            found.append(next(stream))
    except ConsumerTimeout:
        return found


def test_iteration_goes_on_after_a_timeout(stream: MessageStream, hand: Hand) -> None:
    assert _all(stream) == []
    stream.put(hand, chunk_of(hand, 0, batch(0)))
    assert len(_all(stream)) == 10
    stream.put(hand, chunk_of(hand, 10, batch(10)))
    assert [message.offset for message in _all(stream)] == list(range(10, 20))


def test_the_end_comes_to_a_stream_that_waits_and_stays(stream: MessageStream, hand: Hand) -> None:
    stream.timeout = None
    reader = threading.Thread(target=lambda: list(stream), daemon=True)
    reader.start()
    stream.close()
    reader.join(LONG)
    assert not reader.is_alive()
    stream.put(hand, chunk_of(hand, 0, batch(0)))
    assert list(stream) == []


def test_what_is_queued_and_half_handed_out_does_not_come_after_the_end(stream: MessageStream, hand: Hand) -> None:
    stream.put(hand, chunk_of(hand, 0, batch(0)))
    next(stream)
    stream.close()
    assert list(stream) == []
    assert stream.position(hand) in (0, 1)


class LeaseOf(Forever):
    """A lease that is over, and is renewed, when the test says so."""

    def end(self) -> None:
        self.until = 0.0

    def renew(self) -> None:
        self.until = float("inf")


def test_nothing_is_handed_out_after_the_lease_and_nothing_is_lost_by_it() -> None:
    lease = LeaseOf()
    stream = MessageStream(timeout=0.0, lease=lease)
    hand = Hand(("t", 3), stream, 0)
    stream.put(hand, chunk_of(hand, 0, batch(0)))
    assert [next(stream).offset for _ in range(3)] == [0, 1, 2]
    lease.end()
    assert _all(stream) == []
    stream.put(hand, chunk_of(hand, 10, batch(10)))
    assert _all(stream) == []
    lease.renew()
    assert [message.offset for message in _all(stream)] == list(range(3, 20))


def test_a_renewed_lease_wakes_a_reader_that_waits() -> None:
    lease = LeaseOf()
    stream = MessageStream(lease=lease)
    hand = Hand(("t", 3), stream, 0)
    stream.put(hand, chunk_of(hand, 0, batch(0)))
    lease.end()
    got: list[Message] = []
    reader = threading.Thread(target=lambda: got.append(next(stream)), daemon=True)
    reader.start()
    assert got == []
    lease.renew()
    reader.join(LONG)
    assert got[0].offset == 0


def test_what_was_taken_away_does_not_come_out_and_its_position_is_told(stream: MessageStream, hand: Hand) -> None:
    other = Hand(("t", 4), stream, 100)
    stream.put(hand, chunk_of(hand, 0, batch(0)))
    stream.put(other, chunk_of(other, 100, batch(100)))
    stream.put(hand, chunk_of(hand, 10, batch(10)))
    assert [next(stream).offset for _ in range(3)] == [0, 1, 2]
    assert stream.take_away([hand]) == {hand: 2}
    assert [message.offset for message in _all(stream)] == list(range(100, 110))
    assert stream.position(other) == 110
    assert stream.take_away([other]) == {other: 110}


def test_a_huge_partition_starves_no_other(stream: MessageStream) -> None:
    # As the fetcher does it: never more than two chunks of one partition wait, the next comes when one was taken.
    hands = [Hand(("t", index), stream, 0) for index in range(10)]
    offsets = Counter[int]()

    def put(hand: Hand) -> None:
        index = hand.at[1]
        stream.put(hand, chunk_of(hand, offsets[index], batch(offsets[index])))
        offsets[index] += 10

    class Refilling(Supplier):
        def taken(self, chunk: Chunk) -> None:
            put(hands[chunk.partition])

    stream.supply = Refilling()
    put(hands[0])
    put(hands[0])
    for hand in hands[1:]:
        put(hand)
    seen = Counter(next(stream).partition for _ in range(1100))
    assert set(seen) == set(range(10))
    assert seen[0] <= 2 * seen[9] + 20


def test_p22_a_damaged_batch_is_raised_with_its_place_and_does_not_advance(stream: MessageStream, hand: Hand) -> None:
    damaged = bytearray(batch(10))
    damaged[-3] ^= 1
    other = Hand(("t", 4), stream, 100)
    stream.put(hand, chunk_of(hand, 0, batch(0), bytes(damaged), batch(20)))
    stream.put(hand, chunk_of(hand, 30, batch(30)))
    stream.put(other, chunk_of(other, 100, batch(100)))
    assert [next(stream).offset for _ in range(10)] == list(range(10))
    with pytest.raises(
        KafkaError, match=r"partition 3 of 't': the records from offset 10 on are damaged \(crc"
    ) as raised:
        next(stream)
    assert raised.value.code == Error.corrupt_message
    assert isinstance(stream.supply, Supplier)
    assert stream.supply.again == [(hand, 10)]
    assert stream.position(hand) == 10
    # Once: the other partition goes on, and this one when it has been read again.
    assert [message.offset for message in _all(stream)] == list(range(100, 110))
    stream.put(hand, chunk_of(hand, 10, batch(10)))
    assert [message.offset for message in _all(stream)] == list(range(10, 20))


def test_each_chunk_is_said_to_be_taken_once(stream: MessageStream, hand: Hand) -> None:
    chunks = [chunk_of(hand, 0, batch(0), batch(10)), chunk_of(hand, 20, batch(20))]
    for chunk in chunks:
        stream.put(hand, chunk)
    next(stream)
    assert isinstance(stream.supply, Supplier)
    assert stream.supply.taken_chunks == chunks[:1]
    _all(stream)
    assert stream.supply.taken_chunks == chunks


def test_a_chosen_position_counts_at_once_where_nothing_waits_and_in_its_turn_elsewhere(
    stream: MessageStream, hand: Hand
) -> None:
    new = Hand(("t", 9), stream, None)
    assert stream.position(new) is None
    stream.put(new, Chunk(*new.at, 500, 500, -1, b"", ()))
    assert (stream.position(new), new.chosen) == (500, 500)
    stream.put(hand, chunk_of(hand, 0, batch(0)))
    stream.put(hand, Chunk(*hand.at, 70, 70, -1, b"", ()))  # the log has moved on while this was waiting
    assert stream.position(hand) == 0
    assert [next(stream).offset for _ in range(10)] == list(range(10))
    assert stream.position(hand) == 9
    assert _all(stream) == []
    assert stream.position(hand) == 70


def test_no_call_that_begins_after_taking_away_brings_a_message_of_it(stream: MessageStream) -> None:
    stream.timeout = None
    gone: set[Hand] = set()
    hands = {index: Hand(("t", index), stream, 0) for index in range(40)}
    for hand in hands.values():
        stream.put(hand, chunk_of(hand, 0, *(batch(10 * i) for i in range(30))))
    wrong: list[Message] = []
    reached = Counter[int]()

    def read() -> None:
        while True:
            before = set(gone)
            try:
                message = next(stream)
            except StopIteration:
                return
            if hands[message.partition] in before:
                wrong.append(message)
            reached[message.partition] = message.offset

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    positions: dict[Hand, int | None] = {}
    for index in (*range(0, 40, 3), *range(1, 40, 3)):
        until(lambda: sum(reached.values()) > 0)
        positions |= stream.take_away([hands[index]])
        gone.add(hands[index])
    stream.close()
    reader.join(LONG)
    assert wrong == []
    for hand, position in positions.items():
        assert position is not None
        assert position <= reached[hand.at[1]] + 1  # never more than was handed out
