"""What kio's classes say about the wire: the fields of a message in one version, in their order, with their types.

kio generates one dataclass for every message of every version from Kafka's own definitions. A module is imported when
the first message of its version comes by: all of them together take half a second.
"""

import dataclasses
from datetime import timedelta
from functools import cache
from importlib import import_module
from types import EllipsisType, NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

from kafka_classic.wire.apis import CONTROL, Api
from kafka_classic.wire.errors import Error

Kind = Literal["request", "response"]

ZERO: Final[dict[str, Any]] = {
    "string": "",
    "bytes": b"",
    "records": None,
    "bool": False,
    "uuid": None,
    "error_code": Error.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": None,
    "float64": 0.0,
}


class Field(NamedTuple):
    """One field of a message: an array of, or a single, primitive (`kafka_type`) or entity (a class)."""

    name: str
    kafka_type: str | None
    entity: type | None
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any  # what a message that lacks the field means

    @property
    def zero(self) -> Any:
        """What the field holds when nothing is known: never None unless the wire can say None."""
        if self.is_array:
            return ()
        return self.default if self.kafka_type is None else ZERO.get(self.kafka_type, 0)


@cache
def message_class(api: Api, version: int, kind: Kind) -> Any:
    """Return kio's class of a request or a response, or ours where kio has none."""
    ours = api in CONTROL
    module = import_module("kafka_classic.wire.control" if ours else f"kio.schema.{api.name.lower()}.v{version}.{kind}")
    name = "".join(word.title() for word in api.name.split("_")) + kind.title()
    return getattr(module, name)


def fields_of(cls: Any) -> tuple[Field, ...]:
    """Return the fields of one of kio's classes in the order of the wire."""
    return _fields_of(cls)


@cache
def _fields_of(cls: Any) -> tuple[Field, ...]:
    return tuple(_field(field) for field in dataclasses.fields(cls))


def _field(field: "dataclasses.Field[Any]") -> Field:
    inner, nullable = _not_none(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner, rest = get_args(inner)
        assert isinstance(rest, EllipsisType)
    entity = inner if dataclasses.is_dataclass(inner) and isinstance(inner, type) else None
    kafka_type = None if entity else field.metadata["kafka_type"]
    tag = field.metadata.get("tag")
    if field.default is not dataclasses.MISSING:
        default: Any = field.default
    elif nullable:
        default = None
    elif is_array:
        default = ()
    else:
        default = ZERO.get(kafka_type, 0) if kafka_type else None
    return Field(field.name, kafka_type, entity, is_array, nullable, tag, default)


def _not_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) is UnionType:
        (inner,) = (arg for arg in get_args(annotation) if arg is not NoneType)
        return inner, True
    return annotation, False
