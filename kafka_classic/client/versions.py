"""Which version of each request a client and a broker both speak."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from kafka_classic import __version__
from kafka_classic.client.frames import Frame
from kafka_classic.wire.apis import NAMED_UPTO, SERVED, Api
from kafka_classic.wire.bodies import read_response, write_request
from kafka_classic.wire.errors import Error, KafkaError, MalformedRequest

Versions: TypeAlias = Mapping[int, tuple[int, int]]
NEWEST_HELLO = SERVED[Api.API_VERSIONS][1]
_NAME = "kafka-classic"


class Hello(NamedTuple):
    """A broker's answer: its versions, or else which version of the question it can read."""

    versions: Versions | None
    ask_again: int


def choose(api: Api, theirs: Versions, address: str) -> int:
    """Return the newest version both sides speak."""
    oldest, newest = SERVED[api]
    newest = min(newest, NAMED_UPTO.get(api, newest))  # our clients name topics
    if api not in theirs:
        raise KafkaError(
            Error.unsupported_version, f"broker {address} does not serve {api.name}: it needs a newer broker"
        )
    their_oldest, their_newest = theirs[api]
    version = min(newest, their_newest)
    if version < max(oldest, their_oldest):
        raise KafkaError(
            Error.unsupported_version,
            f"broker {address} serves {api.name} in versions {their_oldest} to {their_newest}, we speak {oldest} to "
            f"{newest}: use a {'newer' if their_newest < oldest else 'older'} broker or another client",
        )
    return version


def hello(version: int, client_id: str) -> Callable[[int], bytes]:
    """Return the writer of the question which versions the broker serves."""
    from kio.schema.api_versions.v4 import ApiVersionsRequest

    body = ApiVersionsRequest(client_software_name=_NAME, client_software_version=__version__)
    return lambda correlation_id: write_request(Api.API_VERSIONS, version, correlation_id, client_id, body)


def read_hello(asked: int, frame: Frame) -> Hello:
    """Read the answer. A broker that does not know the version asked answers in version 0, with its own range."""
    error = int.from_bytes(frame[4:6], "big", signed=True)
    refused = error == Error.unsupported_version
    try:
        _, answer = read_response(Api.API_VERSIONS, 0 if refused else asked, frame)
    except MalformedRequest as failure:
        raise KafkaError(
            Error.network_exception,
            f"the other side's first answer cannot be read ({failure.message}); is it a broker?",
        ) from failure
    versions = {int(api.api_key): (int(api.min_version), int(api.max_version)) for api in answer.api_keys}
    if not refused:
        if error:
            raise KafkaError(Error(error), "the broker refused to say which versions it serves: see its log")
        return Hello(versions, asked)
    theirs = versions.get(Api.API_VERSIONS, (0, 0))[1]
    return Hello(None, max(0, min(theirs, asked - 1)))
