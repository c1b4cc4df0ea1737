"""Requests and responses of every version we serve, as instances of one class each.

Handlers and clients know only the newest class of a message (see `apis.model_version`); here the version on the wire is
turned into it and back. Produce and Fetch at the broker do not come this way: see `produce.py` and `fetch.py`.
"""

import struct
from datetime import timedelta
from functools import cache
from typing import Any, Final, NamedTuple

from kafka_classic.wire.apis import FLEXIBLE_FROM, SERVED, Api, advertised, is_flexible, model_version
from kafka_classic.wire.errors import Error, MalformedRequest, UnsupportedVersion
from kafka_classic.wire.readers import Reader, entity_reader
from kafka_classic.wire.schema import Kind, message_class
from kafka_classic.wire.varint import Buffer, skip_tags
from kafka_classic.wire.writers import Writer, entity_writer

# A request of 100 MB could otherwise ask for tens of millions of objects. No client comes near it: it is a hundred
# thousand partitions with two arrays each.
MAX_ELEMENTS: Final = 1 << 18
# Answers come from a broker that the user chose, and describe whole clusters.
MAX_RESPONSE_ELEMENTS: Final = 1 << 24

# librdkafka 2 asks a flexible version for all topics with four zero bytes in place of one, and so sends three too many.
# Kafka, which never looks at what follows a request, answers it.
MAY_GO_ON: Final = frozenset({Api.METADATA})

HEADER: Final = struct.Struct(">hhih")
APIS: Final[dict[int, Api]] = {int(api): api for api in Api}  # an enum's own lookup takes three times as long
# What goes wrong inside when bytes are not what they claim: too few of them, no UTF-8, a time beyond the calendar.
GARBAGE: Final = (struct.error, IndexError, ValueError, OverflowError)


class RequestHeader(NamedTuple):
    """The header of a request; `body_at` is where its body starts in the buffer it was read from."""

    api_key: Api
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def read_request_header(frame: Buffer, pos: int = 0, end: int | None = None) -> RequestHeader:
    """Read the header of the frame (without its four size bytes) that stands at `pos` up to `end`."""
    if end is None:
        end = len(frame)
    if end - pos < 10:
        return _short(frame, pos, end)
    api_key, version, correlation_id, size = HEADER.unpack_from(frame, pos)
    served = SERVED.get(api_key)
    if served is None or not served[0] <= version <= served[1]:
        raise UnsupportedVersion(api_key, version, correlation_id)
    pos += 10
    try:
        client_id = None
        if size >= 0:
            client_id = str(frame[pos : pos + size], "utf-8")
            pos += size
        elif size < -1:
            raise MalformedRequest(f"a client id has the length {size}")
        if version >= FLEXIBLE_FROM[api_key]:
            pos = skip_tags(frame, pos, end)
    except GARBAGE as error:
        raise MalformedRequest(f"the header of a request is garbage: {error}") from None
    if pos > end:
        raise MalformedRequest("the header of a request runs past its end")
    return RequestHeader(APIS[api_key], version, correlation_id, client_id, pos)


def _short(frame: Buffer, pos: int, end: int) -> RequestHeader:
    """Refuse a frame without room for a client id; by its version, if that is the trouble."""
    if end - pos >= 8:
        api_key, version, correlation_id = struct.unpack_from(">hhi", frame, pos)
        low, high = SERVED.get(api_key, (1, 0))
        if not low <= version <= high:
            raise UnsupportedVersion(api_key, version, correlation_id)
    raise MalformedRequest("a request is shorter than its header")


def read_request(header: RequestHeader, frame: Buffer, end: int | None = None) -> Any:
    """Return the request whose header was just read, as an instance of the newest class of its API."""
    if end is None:
        end = len(frame)
    elif end != len(frame):
        frame = memoryview(frame)[:end]  # so that no number is read out of the next frame
    reader = _reader(header.api_key, header.api_version, "request")
    return _read(reader, frame, header.body_at, end, MAX_ELEMENTS, header.api_key)


def write_response(header: RequestHeader, body: Any) -> bytes:
    """Return the whole frame that answers a request, in the request's version."""
    api, version = header.api_key, header.api_version
    out = bytearray(4)
    out += header.correlation_id.to_bytes(4, "big", signed=True)
    if _has_tags(api, version):
        out.append(0)
    model: Any = type(body)
    _writer(api, version, "response", model)(out, body)
    return _framed(out)


def write_request(api: Api, version: int, correlation_id: int, client_id: str | None, body: Any) -> bytes:
    """Return the whole frame of a request in the given version, from an instance of a newer class or the same."""
    name = b"" if client_id is None else client_id.encode()
    out = bytearray(4)
    out += HEADER.pack(api, version, correlation_id, -1 if client_id is None else len(name))
    out += name
    if is_flexible(api, version):
        out.append(0)
    model: Any = type(body)
    _writer(api, version, "request", model)(out, body)
    return _framed(out)


def read_response(api: Api, version: int, frame: Buffer) -> tuple[int, Any]:
    """Return the correlation id and the newest class's instance of a response frame (without its size bytes)."""
    end = len(frame)
    if end < 4:
        raise MalformedRequest("a response is shorter than its header")
    (correlation_id,) = struct.unpack_from(">i", frame, 0)
    try:
        pos = skip_tags(frame, 4, end) if _has_tags(api, version) else 4
    except IndexError:
        raise MalformedRequest("a response is shorter than its header") from None
    reader = _reader(api, version, "response")
    return correlation_id, _read(reader, frame, pos, end, MAX_RESPONSE_ELEMENTS, api)


def api_versions_body(error: Error = Error.none) -> Any:
    """Return the newest ApiVersionsResponse with the table of what we serve."""
    response: Any = message_class(Api.API_VERSIONS, model_version(Api.API_VERSIONS, 0), "response")
    from kio.schema.api_versions.v4.response import ApiVersion
    from kio.static.primitive import i16, i32Timedelta

    return response(
        error_code=error,
        api_keys=tuple(
            ApiVersion(api_key=i16(api), min_version=i16(low), max_version=i16(high))
            for api, (low, high) in sorted(advertised().items())
        ),
        throttle_time=i32Timedelta.parse(timedelta(0)),
    )


def unsupported_api_versions(correlation_id: int) -> bytes:
    """Return the frame that answers an ApiVersions request of a version we do not know.

    It is of version 0, which every client can read, says UNSUPPORTED_VERSION and still has the table: so a client newer
    than we are finds the version to ask again with (KIP-511).
    """
    header = RequestHeader(Api.API_VERSIONS, 0, correlation_id, None, 0)
    return write_response(header, api_versions_body(Error.unsupported_version))


def _has_tags(api: Api, version: int) -> bool:
    # A client reads ApiVersions before it knows how new the broker is, so that header never changes.
    return api is not Api.API_VERSIONS and is_flexible(api, version)


@cache
def _reader(api: Api, version: int, kind: Kind) -> Reader:
    return entity_reader(message_class(api, version, kind), message_class(api, model_version(api, version), kind))


@cache
def _writer(api: Api, version: int, kind: Kind, model: Any) -> Writer:
    return entity_writer(message_class(api, version, kind), model)


def _read(reader: Reader, frame: Buffer, pos: int, end: int, elements: int, api: Api) -> Any:
    try:
        body, pos = reader(frame, pos, end, [elements])
    except GARBAGE as error:
        raise MalformedRequest(f"the body of {api.name} is garbage: {error}") from None
    if pos != end and api not in MAY_GO_ON:
        raise MalformedRequest(f"the body of {api.name} has {end - pos} bytes too many")
    return body


def _framed(out: bytearray) -> bytes:
    out[0:4] = (len(out) - 4).to_bytes(4, "big")
    return bytes(out)
