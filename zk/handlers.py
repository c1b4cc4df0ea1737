"""The two ways a session waits: with threads (clients) or with greenlets (the broker), chosen by name."""

import importlib
import logging
import random
from collections.abc import Callable
from typing import Any, Literal

from kazoo.handlers.threading import SequentialThreadingHandler

log = logging.getLogger(__name__)

HandlerName = Literal["threading", "gevent"]

_SHORTEST_ATTEMPT_S = 1.0  # to connect: a busy server takes its time, and each attempt begins anew


def make_handler(name: HandlerName) -> Any:
    if name == "threading":
        return SequentialThreadingHandler()
    if name == "gevent":
        # Imported by name and only when asked for: clients and Spark's executors must not load gevent.
        return importlib.import_module("kazoo.handlers.gevent").SequentialGeventHandler()
    raise ValueError(f"unknown handler {name!r}: choose 'threading' or 'gevent'")


def tell_granted_timeout(client: Any, tell: Callable[[float], None]) -> None:
    """Has `tell(seconds)` called with the session timeout that a server grants, which may be less than was asked for.

    kazoo keeps it to itself, but for the time it waits for an answer, which is two thirds of it.
    """
    connect = client._connection._connect

    def connect_and_tell(*args: Any, **named: Any) -> Any:
        read_timeout_ms, connect_timeout_ms = connect(*args, **named)
        tell(read_timeout_ms * 1.5 / 1000)
        return read_timeout_ms, connect_timeout_ms

    client._connection._connect = connect_and_tell


def try_again_soon(client: Any, timeout_s: float) -> None:
    """Has an attempt to connect end after a part of the session timeout, so that there is time for another.

    kazoo waits for one server as long as the session lasts. A server that is just starting may take a connection and
    never answer (ZooKeeper forgets it, with a NullPointerException in its log), and one that is cut off says nothing at
    all: the session would be over before anybody else is asked.
    """
    connection = client._connection
    create, invoke = client.handler.create_connection, connection._invoke

    def longest() -> float:
        return max(_SHORTEST_ATTEMPT_S, timeout_s / (len(client.hosts) + 2))

    def create_soon(address: tuple[str, int], timeout: float | None = None, **named: Any) -> Any:
        return create(address, timeout=longest() if timeout is None else min(timeout, longest()), **named)

    def invoke_soon(timeout: float, request: Any, xid: Any = None) -> Any:
        return invoke(min(timeout, longest()), request, xid)

    client.handler.create_connection = create_soon
    connection._invoke = invoke_soon


def resolve_names_beside_the_loop(client: Any, handler: HandlerName) -> None:
    """Lets gevent's resolver look names up: kazoo asks the C library, and a slow name server would stop the hub."""
    if handler != "gevent":
        return
    resolver: Any = importlib.import_module("kazoo.handlers.gevent").socket

    unresolved: set[str] = set()  # said once, not at every attempt of an hour without a name server

    def expand() -> list[tuple[str, str, int]]:
        found: list[tuple[str, str, int]] = []
        for host, port in client.hosts:
            try:
                answers = resolver.getaddrinfo(host.strip(), port, 0, 0, resolver.IPPROTO_TCP)
            except OSError as error:
                if host not in unresolved:
                    unresolved.add(host)
                    log.warning("cannot resolve ZooKeeper's host %s: %s", host, error)
                continue
            unresolved.discard(host)
            found += [(host, address[4][0], address[4][1]) for address in answers]
        random.shuffle(found)  # as kazoo does: the brokers of a cluster spread over its servers
        return found

    client._connection._expand_client_hosts = expand
