"""Garbage from a socket is refused with one exception, in little time and memory."""

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_classic.wire.apis import SERVED, Api
from kafka_classic.wire.bodies import read_request, read_request_header, read_response
from kafka_classic.wire.errors import MalformedRequest, UnsupportedVersion
from kafka_classic.wire.fetch import read_fetch
from kafka_classic.wire.produce import read_produce
from tests.wire.messages import EVERY, NAMES, few, kio_bytes, many, messages, request_frame, response_frame


def _read_all(frame: bytes) -> None:
    """Read a frame by every way it could take; any exception but the two is a failure."""
    try:
        header = read_request_header(frame)
    except (MalformedRequest, UnsupportedVersion):
        return
    ways: list[Callable[[], Any]] = [lambda: read_request(header, frame)]
    if header.api_key is Api.PRODUCE:
        ways.append(lambda: read_produce(frame, header.body_at, len(frame), header.api_version))
    if header.api_key is Api.FETCH:
        ways.append(lambda: read_fetch(frame, header.body_at, len(frame), header.api_version))
    for way in ways:
        try:
            way()
        except MalformedRequest:
            pass


def _read_answer(api: Api, version: int, frame: bytes) -> None:
    try:
        read_response(api, version, frame)
    except MalformedRequest:
        pass


LIES = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff", b"\x7f\xff", b"\xff" * 9, b"\x80\0\0\0"]
mutations = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from(LIES) | st.binary(max_size=4), st.booleans()), max_size=3
)


def _mutate(frame: bytes, changes: list[tuple[float, bytes, bool]]) -> bytes:
    for where, raw, overwrite in changes:
        at = int(where * len(frame))
        frame = frame[:at] + raw + frame[at + (len(raw) if overwrite else 0) :]
    return frame


@given(frame=st.binary(max_size=200))
@many
def test_random_bytes_are_refused(frame: bytes) -> None:
    _read_all(frame)


@given(api=st.sampled_from(sorted(SERVED)), version=st.integers(0, 18), body=st.binary(max_size=100))
@many
def test_random_bodies_are_refused(api: Api, version: int, body: bytes) -> None:
    low, high = SERVED[api]
    version = min(max(low, version), high)
    _read_all(request_frame(api, version, body))
    _read_answer(api, version, response_frame(api, version, body))


@pytest.mark.parametrize(("api", "version"), EVERY, ids=NAMES)
@given(data=st.data())
@few
def test_sound_messages_with_bytes_changed_are_read_or_refused(api: Api, version: int, data: st.DataObject) -> None:
    changes = data.draw(mutations)
    request = kio_bytes(data.draw(messages(api, version, "request")))
    _read_all(_mutate(request_frame(api, version, request), changes))
    response = kio_bytes(data.draw(messages(api, version, "response")))
    _read_answer(api, version, _mutate(response_frame(api, version, response), changes))


def test_a_count_of_two_thousand_million_anywhere_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        # The oldest is classic, the newest flexible: those two read counts differently.
        for api, version in [(api, version) for api, ends in SERVED.items() for version in ends]:
            start = len(request_frame(api, version, b""))
            _read_all(request_frame(api, version, bytes(40)))  # so that imports are not counted
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            for lie in LIES:
                for at in range(start, start + 30):
                    frame = request_frame(api, version, bytes(40))
                    _read_all(frame[:at] + lie + frame[at + len(lie) :])
            assert tracemalloc.get_traced_memory()[1] - before < 1 << 20, (api, version)
    finally:
        tracemalloc.stop()


def test_a_request_of_more_elements_than_any_client_sends_is_refused_before_they_are_made() -> None:
    count = 300_000
    frame = request_frame(Api.DELETE_TOPICS, 1, struct.pack(">i", count) + bytes(2 * count + 4))
    with pytest.raises(MalformedRequest, match="more than"):
        read_request(read_request_header(frame), frame)
    # Spread over many arrays it is no less.
    topic = b"\0\0" + struct.pack(">i", 50_000) + bytes(4 * 50_000)
    frame = request_frame(Api.DESCRIBE_LOG_DIRS, 1, struct.pack(">i", 10) + topic * 10)
    with pytest.raises(MalformedRequest, match="more than"):
        read_request(read_request_header(frame), frame)
