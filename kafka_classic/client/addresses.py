"""`host:port,host:port`, as a bootstrap list is written."""

from __future__ import annotations

from kafka_classic.wire.errors import Error, KafkaError

DEFAULT_PORT = 9092


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Return the addresses in order; the port may be left out, an IPv6 address stands in brackets."""
    addresses = [_parse(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise KafkaError(Error.invalid_request, "no broker's address was given: name one as HOST:PORT")
    return addresses


def _parse(text: str) -> tuple[str, int]:
    bare = text.partition("://")[2] or text  # PLAINTEXT://host:port, as listeners are written
    if bare.startswith("["):
        host, _, port = bare[1:].partition("]")
        colon, port = port[:1], port[1:]
    else:
        host, colon, port = bare.partition(":")
    if not host or ":" in port or (colon and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise KafkaError(
            Error.invalid_request, f"{text!r} is not a broker's address: write HOST:PORT, as in 127.0.0.1:9092"
        )
    return host, int(port) if colon else DEFAULT_PORT
