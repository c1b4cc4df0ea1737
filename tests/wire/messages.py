"""Messages of any API and version, made up by hypothesis from kio's classes and written by kio's own writer."""

import io
from datetime import timedelta
from functools import cache
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from kafka_classic.wire.apis import SERVED, Api, is_flexible
from kafka_classic.wire.errors import Error
from kafka_classic.wire.readers import EPOCH
from kafka_classic.wire.schema import Field, Kind, fields_of, message_class

# The machine may be busy, so time says nothing; and there are hundreds of versions, so each gets few examples a run.
_calm = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)
few = settings(_calm, max_examples=3)
some = settings(_calm, max_examples=8)
many = settings(_calm, max_examples=300)

EVERY = [(api, version) for api, (low, high) in SERVED.items() for version in range(low, high + 1)]
NAMES = [f"{api.name}-{version}" for api, version in EVERY]

_TEXT = st.text(max_size=8)
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(allow_nan=False),
    "string": _TEXT,
    "bytes": st.binary(max_size=20),
    "records": st.binary(max_size=200),
    "uuid": st.none() | st.uuids(allow_nil=False),
    "error_code": st.sampled_from(Error),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": st.integers(-(2**40), 2**40).map(lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": st.integers(0, 2**42).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
}


@cache
def instances(cls: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for instances of one of kio's classes."""
    return st.builds(cls, **{field.name: _values(field) for field in fields_of(cls)})


def _values(field: Field) -> st.SearchStrategy[Any]:
    if field.entity is not None:
        value = instances(field.entity)
    else:
        assert field.kafka_type is not None
        value = _PRIMITIVES[field.kafka_type]
    if field.is_array:
        value = st.lists(value, max_size=2).map(tuple)
    # kio cannot write a null in a tagged field that is not null by default.
    return st.none() | value if field.nullable and (field.tag is None or field.default is None) else value


def messages(api: Api, version: int, kind: Kind) -> st.SearchStrategy[Any]:
    """Return a strategy for requests or responses of one version."""
    return instances(message_class(api, version, kind))


def kio_bytes(message: Any) -> bytes:
    """Return what kio writes for a message."""
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return out.getvalue()


def kio_read(cls: Any, raw: bytes) -> Any:
    """Return what kio reads; only for bytes that are known to be sound, since a lying count would abort the process."""
    message, size = entity_reader(cls)(raw, 0)
    assert size == len(raw)
    return message


def request_frame(api: Api, version: int, body: bytes, client_id: bytes = b"\0\4test") -> bytes:
    """Return a request frame without its size bytes."""
    header = api.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + client_id
    return header + (b"\0" if is_flexible(api, version) else b"") + body


def response_frame(api: Api, version: int, body: bytes) -> bytes:
    """Return a response frame without its size bytes."""
    tags = b"\0" if is_flexible(api, version) and api is not Api.API_VERSIONS else b""
    return (7).to_bytes(4, "big") + tags + body
