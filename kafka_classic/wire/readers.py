"""Reading a message of any version into the classes our rooms are written against.

kio brings a native parser, but it reserves memory for as many elements as an array claims to have (a count of two
thousand million, in a request of ten bytes, aborts the process) and fails on a tagged field that it does not know,
where the protocol says to skip it. So what comes from a socket is read here: one closure a field, made once for each
pair of classes (the version on the wire, the version of our handlers), that checks every length before it believes it.
"""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from kafka_classic.wire.errors import Error, MalformedRequest
from kafka_classic.wire.schema import Field, fields_of
from kafka_classic.wire.varint import Buffer, read_uvarint
from kafka_classic.wire.versions import RAISE

# (buffer, position, end, [elements that may still be read]) -> (value, position after it)
Reader = Callable[[Buffer, int, int, list[int]], tuple[Any, int]]

NUMBERS: Final = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "float64": "d", "bool": "?"}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NO_UUID: Final = bytes(16)


def _error(number: int) -> Error:
    try:
        return Error(number)
    except ValueError:
        return Error.unknown_server_error  # of a broker newer than our table


def _instant(ms: int) -> datetime | None:
    return None if ms == -1 else EPOCH + timedelta(milliseconds=ms)


CONVERTED: Final[dict[str, tuple[str, Callable[[int], Any]]]] = {
    "error_code": ("h", _error),
    "timedelta_i32": ("i", lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": ("q", lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": ("q", _instant),
}


@cache
def entity_reader(wire: Any, model: Any) -> Reader:
    """Return a function that reads a `wire` class's bytes into an instance of `model`.

    Fields that only the model has get their defaults, fields that only the wire has are dropped.
    """
    flexible: bool = wire.__flexible__
    targets = {field.name: field for field in fields_of(model)}
    defaults = {field.name: field.default for field in targets.values()}
    plain = [(f.name, field_reader(f, targets.get(f.name), flexible)) for f in fields_of(wire) if f.tag is None]
    tagged = {f.tag: (f.name, field_reader(f, targets.get(f.name), True)) for f in fields_of(wire) if f.tag is not None}
    adapt = RAISE.get(wire.__name__)
    dropped = [f.name for f in fields_of(wire) if f.name not in targets]

    def read(buf: Buffer, pos: int, end: int, left: list[int]) -> tuple[Any, int]:
        values = defaults.copy()
        for name, reader in plain:
            values[name], pos = reader(buf, pos, end, left)
        if flexible:
            count, pos = read_uvarint(buf, pos)
            for _ in range(count):
                tag, pos = read_uvarint(buf, pos)
                size, pos = read_uvarint(buf, pos)
                after = pos + size
                if after > end:
                    raise MalformedRequest(f"a tagged field of {wire.__name__} runs past the end of the message")
                if tag in tagged:
                    name, reader = tagged[tag]
                    values[name], pos = reader(buf, pos, after, left)
                    if pos != after:
                        raise MalformedRequest(f"the tagged field {name} is not as long as it says")
                pos = after
        if adapt is not None:
            adapt(wire, model, values)
        for name in dropped:
            values.pop(name, None)
        return model(**values), pos

    return read


def field_reader(wire: Field, model: Field | None, flexible: bool) -> Reader:
    """Return the reader of one field; `model` is the field of that name in the class that is made, if it has one."""
    if wire.entity is not None:
        element = entity_reader(wire.entity, model.entity if model and model.entity else wire.entity)
        if wire.is_array:
            return array_reader(wire.name, element, wire.nullable, flexible)
        # A tagged field is absent rather than null, so it has no marker.
        return nullable_entity_reader(element) if wire.nullable and wire.tag is None else element
    assert wire.kafka_type is not None
    if wire.is_array:
        return array_reader(
            wire.name, primitive_reader(wire.name, wire.kafka_type, False, flexible), wire.nullable, flexible
        )
    return primitive_reader(wire.name, wire.kafka_type, wire.nullable, flexible)


def array_reader(name: str, element: Reader, nullable: bool, flexible: bool) -> Reader:
    """Return the reader of an array, which reads no more elements than there are bytes left, or than `left` allows."""

    def read(buf: Buffer, pos: int, end: int, left: list[int]) -> tuple[Any, int]:
        if flexible:
            count, pos = read_uvarint(buf, pos)
            count -= 1
        else:
            (count,) = INT32.unpack_from(buf, pos)
            pos += 4
        if count < 0:
            if count == -1 and nullable:
                return None, pos
            raise MalformedRequest(f"{name} is an array of {count} elements")
        left[0] -= count
        if count > end - pos or left[0] < 0:
            raise MalformedRequest(f"{name} claims {count} elements, more than the message can hold")
        values = []
        for _ in range(count):
            value, pos = element(buf, pos, end, left)
            values.append(value)
        return tuple(values), pos

    return read


def nullable_entity_reader(element: Reader) -> Reader:
    """Return the reader of a struct that may be null: a byte says so (KIP-893)."""

    def read(buf: Buffer, pos: int, end: int, left: list[int]) -> tuple[Any, int]:
        marker = buf[pos]
        return (None, pos + 1) if marker > 127 else element(buf, pos + 1, end, left)

    return read


def primitive_reader(name: str, kafka_type: str, nullable: bool, flexible: bool) -> Reader:
    """Return the reader of a number, a string, bytes, or one of the types kio makes of them."""
    if kafka_type in NUMBERS:
        return number_reader(NUMBERS[kafka_type], None)
    if kafka_type in CONVERTED:
        return number_reader(*CONVERTED[kafka_type])
    if kafka_type == "uuid":
        return read_uuid
    is_text = kafka_type == "string"
    size_struct = INT16 if is_text else INT32

    def read(buf: Buffer, pos: int, end: int, left: list[int]) -> tuple[Any, int]:
        if flexible:
            size, pos = read_uvarint(buf, pos)
            size -= 1
        else:
            (size,) = size_struct.unpack_from(buf, pos)
            pos += size_struct.size
        if size < 0:
            if size == -1 and nullable:
                return None, pos
            raise MalformedRequest(f"{name} has the length {size}")
        after = pos + size
        if after > end:
            raise MalformedRequest(f"{name} of {size} bytes runs past the end of the message")
        return str(buf[pos:after], "utf-8") if is_text else bytes(buf[pos:after]), after

    return read


def number_reader(code: str, convert: Callable[[int], Any] | None) -> Reader:
    """Return the reader of a number of fixed size."""
    unpack_from, size = struct.Struct(">" + code).unpack_from, struct.calcsize(">" + code)

    def read(buf: Buffer, pos: int, end: int, left: list[int]) -> tuple[Any, int]:
        return unpack_from(buf, pos)[0], pos + size

    def read_converted(buf: Buffer, pos: int, end: int, left: list[int]) -> tuple[Any, int]:
        assert convert is not None
        return convert(unpack_from(buf, pos)[0]), pos + size

    return read if convert is None else read_converted


def read_uuid(buf: Buffer, pos: int, end: int, left: list[int]) -> tuple[Any, int]:
    """Read 16 bytes; all zeros mean that there is no id."""
    raw = bytes(buf[pos : pos + 16])
    if len(raw) < 16:
        raise MalformedRequest("an id is cut short")
    return (None if raw == NO_UUID else UUID(bytes=raw)), pos + 16


INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
