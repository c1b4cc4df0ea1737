"""Requests of any size, cut anywhere: around the 64 KB above which one gets its own buffer, and the shared 256 KB."""

from __future__ import annotations

import random
import threading

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.records.decode import decode_records
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_response, write_request
from tests.broker.calls import VERSIONS, api_versions, set_configs
from tests.broker.conftest import MakeTopic, make_topic
from tests.broker.raw import CLIENT, Raw, batch, fetch, fetch_frame, fetched, produce, produce_frame, produced
from tests.broker.test_produce import values

KB = 1024
MB = 1024 * KB
LARGE = 64 * KB
SHARED = 256 * KB


def frame_of(topic: str, size: int, number: int) -> tuple[bytes, bytes]:
    """A produce request of exactly `size` bytes, its own size included, and the value it carries."""
    value = b"%06d " % number
    empty = len(produce_frame(topic, batch(value)))
    for fill in range(max(0, size - empty - 8), size - empty + 1):
        frame = produce_frame(topic, batch(value + b"f" * fill))
        if len(frame) == size:
            return frame, value + b"f" * fill
    # A size that lies just where a length takes a byte more cannot be met: one less is as good.
    return frame_of(topic, size - 1, number)


def read_by_now(other: Raw) -> None:
    """The broker reads what is there in the order of arrival: once it answers this, it has read what came before."""
    api_versions(other)


@pytest.mark.parametrize("size", [LARGE - 4, LARGE - 1, LARGE, LARGE + 1, LARGE + 4, LARGE + 5, SHARED, SHARED + 1])
def test_a_request_cut_at_any_byte_near_a_limit_is_read_whole(address: str, kafka_topic: str, size: int) -> None:
    cuts = [*range(1, 18), *(LARGE + d for d in range(-3, 6)), *(SHARED + d for d in range(-3, 6)), size - 1]
    with Raw(address) as raw, Raw(address) as other:
        sent = []
        for number, cut in enumerate(c for c in cuts if c < size):
            whole, value = frame_of(kafka_topic, size, number)
            small, next_value = frame_of(kafka_topic, 400, number)
            sent += [value, next_value]
            stream = whole + small
            raw.send(stream[:cut])
            read_by_now(other)
            raw.send(stream[cut:])
            assert produced(raw, kafka_topic)[0] == 0
            assert produced(raw, kafka_topic)[0] == 0
        assert values(raw, kafka_topic) == sent


def test_small_requests_over_the_shared_buffers_edge_are_read_whole(address: str, kafka_topic: str) -> None:
    """The first request's size shifts the others, so that each byte of a header meets the edge once."""
    with Raw(address) as raw:
        sent = []
        for shift in range(24):
            first, value = frame_of(kafka_topic, 1000 + shift, shift)
            sent.append(value)
            frames = [first]
            for number in range(300):
                frame, value = frame_of(kafka_topic, 1024, number)
                frames.append(frame)
                sent.append(value)
            raw.send(b"".join(frames))
            for _ in frames:
                assert produced(raw, kafka_topic)[0] == 0
        assert values(raw, kafka_topic) == sent


@pytest.mark.timeout(20)
@pytest.mark.parametrize("size", [LARGE - 100, LARGE + 100, 100_000, 200_000, SHARED + 100, 900_000])
def test_a_large_request_behind_a_large_answer_is_handled_once_that_is_taken(
    address: str, kafka_topic: str, size: int
) -> None:
    """The answer does not fit the socket, so the requests behind it wait, whole or not, in the receive buffer."""
    with Raw(address) as raw:
        for _ in range(8):
            assert produce(raw, kafka_topic, batch(b"v" * 900_000))[0] == 0
        large, value = frame_of(kafka_topic, size, 1)
        small, _ = frame_of(kafka_topic, 400, 2)
        raw.send(fetch_frame(kafka_topic, 0, partition_max_bytes=20 * MB) + large + small)
        error, _, records = fetched(raw, kafka_topic)
        assert error == 0
        assert len(records) > 7_000_000
        assert produced(raw, kafka_topic) == (0, 8)
        assert produced(raw, kafka_topic) == (0, 9)
        _, _, records = fetch(raw, kafka_topic, 8)
        assert next(decode_records(records)).value == value


def test_a_large_request_behind_one_that_is_handled_in_a_greenlet_is_handled_too(raw: Raw, kafka_topic: str) -> None:
    who = VERSIONS.ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    question = write_request(Api.API_VERSIONS, 3, 5, CLIENT, who)
    for number, size in enumerate((LARGE - 50, LARGE + 50, 150_000, SHARED + 50)):
        large, _ = frame_of(kafka_topic, size, number)
        raw.send(question + large + question + large + question)
        for turn in range(5):
            if turn % 2:
                assert produced(raw, kafka_topic) == (0, 2 * number + turn // 2)
            else:
                assert read_response(Api.API_VERSIONS, 3, raw.frame())[0] == 5


def test_large_and_small_requests_in_any_mixture(address: str, topic_with: MakeTopic) -> None:
    topic = topic_with()
    rng = random.Random(7)
    with Raw(address) as raw:
        set_configs(raw, topic, max_message_bytes=str(12 * MB))
        sizes = [rng.choice((200, 1000, 60_000, 70_000, 300_000, 1_500_000)) for _ in range(30)]
        sizes[5], sizes[20] = 10 * MB, 10 * MB
        sent = []
        for number, size in enumerate(sizes):
            frame, value = frame_of(topic, size, number)
            sent.append(value)
            raw.send(frame)
        for number in range(len(sizes)):
            assert produced(raw, topic) == (0, number)
        assert values(raw, topic) == sent


def test_a_batch_of_exactly_the_limit_is_taken_and_a_byte_more_is_not(raw: Raw, kafka_topic: str) -> None:
    whole = batch(b"v" * 2000)
    for _ in range(2):
        set_configs(raw, kafka_topic, max_message_bytes=str(len(whole)))
        assert produce(raw, kafka_topic, whole)[0] == 0
        set_configs(raw, kafka_topic, max_message_bytes=str(len(whole) - 1))
        assert produce(raw, kafka_topic, whole)[0] == Error.message_too_large.value


def test_large_requests_of_many_connections_wait_for_their_turn_and_none_for_ever(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """With room for less than one large request, they are taken one after the other."""
    settings = {"queued.max.request.bytes": "1000000", "message.max.bytes": str(3 * MB)}
    with LocalCluster(tmp_path_factory.mktemp("room"), settings=settings) as cluster:
        address = cluster.brokers[0].address
        topic = make_topic(address)
        raws = [Raw(address) for _ in range(10)]
        frames = [frame_of(topic, 2 * MB if n % 2 else 100_000, n)[0] for n in range(10)]
        for raw, frame in zip(raws, frames, strict=True):
            raw.send(frame[:70_000])
        # Each in its thread: who must wait is not read, and its socket takes only so much.
        senders = [
            threading.Thread(target=raw.send, args=(frame[70_000:],)) for raw, frame in zip(raws, frames, strict=True)
        ]
        for sender in reversed(senders):
            sender.start()
        with Raw(address) as left:  # one that waits and goes leaves no hole
            left.send(frames[0][:70_000])
        assert sorted(produced(raw, topic)[1] for raw in raws) == list(range(10))
        for sender, raw in zip(senders, raws, strict=True):
            sender.join()
            raw.sock.close()
