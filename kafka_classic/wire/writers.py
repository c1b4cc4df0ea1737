"""Writing a message in any version from an instance of the classes our rooms are written against.

One closure a field, made once for each pair of classes (the version on the wire, the class of the instance). Fields
that the wire lacks are dropped, fields that the instance lacks get their defaults, and a None that an older version
cannot say becomes the empty value of its type.
"""

import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from kafka_classic.wire.readers import EPOCH, NO_UUID, NUMBERS
from kafka_classic.wire.schema import Field, fields_of
from kafka_classic.wire.varint import uvarint
from kafka_classic.wire.versions import LOWER

Writer = Callable[[bytearray, Any], None]

MILLISECOND: Final = timedelta(milliseconds=1)


def _instant(value: datetime | None) -> int:
    return -1 if value is None else round((value - EPOCH) / MILLISECOND)


def _span(value: timedelta) -> int:
    return round(value / MILLISECOND)


CONVERTED: Final[dict[str, tuple[str, Callable[[Any], int]]]] = {
    "error_code": ("h", int),
    "timedelta_i32": ("i", _span),
    "timedelta_i64": ("q", _span),
    "datetime_i64": ("q", _instant),
}


@cache
def entity_writer(wire: Any, model: Any) -> Writer:
    """Return a function that appends an instance of `model` to a buffer as the bytes of the class `wire`."""
    flexible: bool = wire.__flexible__
    sources = {field.name: field for field in fields_of(model)}
    lower = LOWER.get(wire.__name__)
    given = lower(wire, model) if lower is not None else {}
    plain: list[tuple[Callable[[Any], Any], Writer]] = []
    tagged: list[tuple[int, Callable[[Any], Any], Writer, Any]] = []
    for field in sorted(fields_of(wire), key=lambda f: -1 if f.tag is None else f.tag):
        write = field_writer(field, sources.get(field.name), flexible)
        get = given.get(field.name) or _getter(field, sources.get(field.name), wire, model)
        if field.tag is None:
            plain.append((get, write))
        else:
            tagged.append((field.tag, get, write, field.default))

    def write_entity(out: bytearray, value: Any) -> None:
        for get, write in plain:
            write(out, get(value))
        if not flexible:
            return
        present = [(tag, write, got) for tag, get, write, default in tagged if (got := get(value)) != default]
        out += uvarint(len(present))
        for tag, write, got in present:
            content = bytearray()
            write(content, got)
            out += uvarint(tag) + uvarint(len(content)) + content

    return write_entity


def _getter(wire: Field, model: Field | None, wire_class: Any, model_class: Any) -> Callable[[Any], Any]:
    if model is None:
        if wire.kafka_type == "string" and not wire.nullable and wire.default == "" and wire.name in ("name", "topic"):
            # A topic's name cannot be made up: a class that knows only ids cannot speak a version that has only names.
            raise TypeError(f"{wire_class.__name__} of version {wire_class.__version__} needs {wire.name}, "
                            f"which version {model_class.__version__} does not carry")  # fmt: skip
        default = wire.default
        return lambda _: default
    name, zero = wire.name, wire.zero
    if model.nullable and not wire.nullable:
        return lambda value: zero if (got := getattr(value, name)) is None else got
    return lambda value: getattr(value, name)


def field_writer(wire: Field, model: Field | None, flexible: bool) -> Writer:
    """Return the writer of one field; `model` is the field of the same name in the class that is written, if any."""
    if wire.entity is not None:
        element = entity_writer(wire.entity, model.entity if model and model.entity else wire.entity)
        if wire.is_array:
            return array_writer(element, flexible)
        return nullable_entity_writer(element) if wire.nullable and wire.tag is None else element
    assert wire.kafka_type is not None
    element = primitive_writer(wire.kafka_type, flexible)
    return array_writer(element, flexible) if wire.is_array else element


def array_writer(element: Writer, flexible: bool) -> Writer:
    """Return the writer of an array; None is written as the null array."""

    def write(out: bytearray, values: Any) -> None:
        count = -1 if values is None else len(values)
        out += uvarint(count + 1) if flexible else count.to_bytes(4, "big", signed=True)
        for value in values or ():
            element(out, value)

    return write


def nullable_entity_writer(element: Writer) -> Writer:
    """Return the writer of a struct that may be null: a byte says so (KIP-893)."""

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out += b"\xff"
        else:
            out += b"\x01"
            element(out, value)

    return write


def primitive_writer(kafka_type: str, flexible: bool) -> Writer:
    """Return the writer of a number, a string, bytes, or one of the types kio makes of them."""
    if kafka_type in NUMBERS:
        pack = struct.Struct(">" + NUMBERS[kafka_type]).pack
        return lambda out, value: out.extend(pack(value))
    if kafka_type in CONVERTED:
        code, convert = CONVERTED[kafka_type]
        pack_converted = struct.Struct(">" + code).pack
        return lambda out, value: out.extend(pack_converted(convert(value)))
    if kafka_type == "uuid":
        return lambda out, value: out.extend(NO_UUID if value is None else value.bytes)
    size_of_size = 2 if kafka_type == "string" else 4

    def write(out: bytearray, value: Any) -> None:
        raw = value.encode() if isinstance(value, str) else value
        size = -1 if raw is None else len(raw)
        out += uvarint(size + 1) if flexible else size.to_bytes(size_of_size, "big", signed=True)
        if raw:
            out += raw

    return write
