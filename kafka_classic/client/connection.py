"""One connection to one broker: versions agreed on, requests pipelined, answers matched in order, thread-safe.

No thread runs here. Whoever waits for an answer reads for all: it takes frames off the socket and hands each to the
request it belongs to, until its own is there; then the next waiter takes over. So a request that waits alone costs no
switch between threads, and a program that only fires and forgets owns nothing that must be stopped.

            send()                    answer read                  result()
    (new) ---------> in flight ---------------------> answered ---------------> (value)
                         \\--- timeout, loss, close ---> failed ---------------> (raises)

A broker answers the requests of one connection in order. After a timeout nobody can tell what the next bytes answer,
so the connection is closed, as Kafka's clients do; a new one costs two round trips.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from kafka_classic.client.errors import Closed, ConnectionLost, RequestTimedOut, unreachable
from kafka_classic.client.frames import Frame, FrameReader, NotKafka
from kafka_classic.client.versions import NEWEST_HELLO, Versions, choose, hello, read_hello
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_response, write_request
from kafka_classic.wire.errors import Error, KafkaError, MalformedRequest

T = TypeVar("T")
Bytes = bytes | bytearray | memoryview

DEFAULT_CLIENT_ID = "kafka-classic"
_LARGEST_ANSWER = 256 << 20
_HEADER = struct.Struct(">ihhih")  # size, api, version, correlation id, length of the client id


class Pending(Generic[T]):
    """An answer that is on its way."""

    __slots__ = ("_connection", "_deadline", "_error", "_frame", "_read", "correlation_id", "what")

    def __init__(
        self, connection: Connection, correlation_id: int, what: str, deadline: float, read: Callable[[Frame], T]
    ) -> None:
        self._connection = connection
        self._deadline = deadline
        self._read = read
        self._frame: Frame | None = None
        self._error: KafkaError | None = None
        self.correlation_id = correlation_id
        self.what = what

    @property
    def done(self) -> bool:
        """Whether result() would return, or raise, without waiting."""
        return self._frame is not None or self._error is not None

    def result(self) -> T:
        """Wait for the answer and return it; raises the KafkaError that kept it from coming."""
        if not self.done:
            self._connection._await(self, self._deadline)
        if self._error is not None:
            raise self._error
        assert self._frame is not None
        return self._read(self._frame)


class Connection:
    """A connection to the broker at host:port; made, and its versions agreed on, by the constructor."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str = DEFAULT_CLIENT_ID,
        timeout: float = 30.0,
        *,
        connect_timeout: float = 10.0,
    ) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.client_id = client_id
        self.timeout = timeout
        self._client_id = client_id.encode()
        self._correlation_ids = itertools.count()
        self._sending = threading.Lock()
        self._state = threading.Condition()
        self._in_flight: deque[Pending[Any]] = deque()
        self._reader_at_work = False
        self._broken: KafkaError | None = None
        try:
            self._out = socket.create_connection((host, port), connect_timeout)
        except OSError as error:
            raise unreachable(self.address, error) from error
        except UnicodeError as error:  # a host that cannot be a name, as "a..b"
            raise unreachable(self.address, socket.gaierror(str(error))) from error
        self._out.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._out.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._out.settimeout(timeout)
        # A second object for the same socket: a timeout belongs to the object, and one thread may send with one
        # while another receives with another.
        self._in = self._out.dup()
        self._frames = FrameReader(self._in, _LARGEST_ANSWER)
        try:
            self.versions = self._agree()
        except BaseException:
            self.close()
            raise

    def require(self, api: Api, version: int) -> None:
        """Check that the broker serves a version that is packed by hand; raises UNSUPPORTED_VERSION if not."""
        oldest, newest = self.versions.get(api, (0, -1))
        if not oldest <= version <= newest:
            raise KafkaError(
                Error.unsupported_version,
                f"broker {self.address} does not serve {api.name} v{version}: use a broker of Kafka 2.4 or newer",
            )

    def version(self, api: Api) -> int:
        """Return the version both sides speak; raises UNSUPPORTED_VERSION when there is none."""
        return choose(api, self.versions, self.address)

    def request(self, api: Api, body: object, timeout: float | None = None) -> Any:
        """Send one request of the newest version's type and wait for its answer, of the newest version's type."""
        return self.send(api, body, timeout).result()

    def send(self, api: Api, body: object, timeout: float | None = None) -> Pending[Any]:
        """Send one request without waiting. Take every result in the end: unread answers fill the socket."""
        version = self.version(api)
        return self._send(
            api,
            lambda correlation_id: write_request(api, version, correlation_id, self.client_id, body),
            lambda frame: self._read(api, version, frame),
            timeout,
        )

    def send_packed(
        self, api: Api, version: int, body: Sequence[Bytes], read: Callable[[Frame], T], timeout: float | None = None
    ) -> Pending[T]:
        """Send a body packed by hand, of a version older than the flexible ones; `read` gets the answer's body."""

        self.require(api, version)

        def read_body(frame: Frame) -> T:
            try:
                return read(frame[4:])
            except (struct.error, IndexError, ValueError) as error:
                raise self._unreadable(api, version, str(error)) from error

        return self._send(api, self._pack(api, version, body), read_body, timeout)

    def send_unanswered(self, api: Api, version: int, body: Sequence[Bytes]) -> None:
        """Send what a broker does not answer: Produce with acks=0."""
        with self._sending:
            self._check_open()
            self._write(self._pack(api, version, body)(next(self._correlation_ids) & 0x7FFFFFFF))

    @property
    def in_flight(self) -> int:
        """How many requests are sent and not answered."""
        return len(self._in_flight)

    @property
    def usable(self) -> bool:
        return self._broken is None

    def detach(self) -> socket.socket:
        """Hand the socket over to a caller who reads and writes it without waiting; this object is of no use then."""
        with self._sending, self._state:
            self._check_open()
            self._broken = Closed(Error.network_exception, f"the connection to broker {self.address} was handed over")
            self._in.close()
            return self._out

    def close(self) -> None:
        """Close the connection; every waiter wakes with an error. May be called twice, and from any thread."""
        self._break(Closed(Error.network_exception, f"the connection to broker {self.address} was closed"))
        # The descriptors are given back only when nobody is inside recv or send any more: a number that is closed
        # under a waiting thread may already be another file.
        with self._state:
            self._state.wait_for(lambda: not self._reader_at_work)
            self._in.close()
        with self._sending:
            self._out.close()

    def _agree(self) -> Versions:
        """Ask which versions the broker serves, as Kafka's clients do: newest question first, then what it can read."""
        version = NEWEST_HELLO
        for _ in range(2):
            answer = self._send(
                Api.API_VERSIONS, hello(version, self.client_id), partial(read_hello, version), None
            ).result()
            if answer.versions is not None:
                return answer.versions
            version = answer.ask_again
        raise KafkaError(
            Error.unsupported_version,
            f"broker {self.address} does not say which versions it serves: is it older than Kafka 0.10?",
        )

    def _pack(self, api: Api, version: int, body: Sequence[Bytes]) -> Callable[[int], bytes]:
        size = _HEADER.size - 4 + len(self._client_id) + sum(map(len, body))

        def write(correlation_id: int) -> bytes:
            header = _HEADER.pack(size, api, version, correlation_id, len(self._client_id))
            return b"".join((header, self._client_id, *body))

        return write

    def _send(
        self, api: Api, write: Callable[[int], bytes], read: Callable[[Frame], T], timeout: float | None
    ) -> Pending[T]:
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        # One lock over number, queue and socket: answers come in the order of the bytes sent.
        with self._sending:
            correlation_id = next(self._correlation_ids) & 0x7FFFFFFF
            frame = write(correlation_id)
            pending = Pending(self, correlation_id, api.name, deadline, read)
            with self._state:
                self._check_open()
                self._in_flight.append(pending)
            self._write(frame)
        return pending

    def _write(self, frame: bytes) -> None:
        try:
            self._out.sendall(frame)
        except TimeoutError:
            raise self._break(self._timed_out("did not read a request")) from None
        except OSError as error:
            raise self._break(self._lost(error)) from error

    def _await(self, pending: Pending[Any], deadline: float) -> None:
        with self._state:
            while not pending.done:
                if self._reader_at_work:
                    if not self._state.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                        break
                    continue
                self._reader_at_work = True
                self._state.release()
                frame, error = None, None
                try:
                    frame, error = self._receive(deadline)
                finally:
                    self._state.acquire()
                    self._reader_at_work = False
                    self._state.notify_all()
                if frame is not None:
                    error = self._hand_out(frame)
                if error is not None:
                    self._break(error)
        if not pending.done:
            self._break(self._timed_out(f"did not answer {pending.what}"))

    def _receive(self, deadline: float) -> tuple[Frame | None, KafkaError | None]:
        try:
            return self._frames.next(deadline), None
        except TimeoutError:
            oldest = self._in_flight[0].what if self._in_flight else "a request"
            return None, self._timed_out(f"did not answer {oldest}")
        except NotKafka as error:
            return None, self._not_kafka(str(error))
        except (EOFError, OSError) as error:
            return None, self._lost(error)

    def _hand_out(self, frame: Frame) -> KafkaError | None:
        if not self._in_flight:
            return self._not_kafka("an answer that nobody asked for")
        expected = self._in_flight[0].correlation_id
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if correlation_id != expected:
            return self._not_kafka(f"answer {correlation_id} in place of {expected}")
        self._in_flight.popleft()._frame = frame
        return None

    def _break(self, error: KafkaError) -> KafkaError:
        """Fail every request in flight and all later ones; the first reason stands."""
        with self._state:
            if self._broken is None:
                self._broken = error
                while self._in_flight:
                    self._in_flight.popleft()._error = error
                self._state.notify_all()
            try:
                self._out.shutdown(socket.SHUT_RDWR)  # wakes whoever is inside recv or send
            except OSError:
                pass
            return self._broken

    def _check_open(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _timed_out(self, what: str) -> RequestTimedOut:
        return RequestTimedOut(
            Error.request_timed_out,
            f"broker {self.address} {what} in time; is it overloaded or paused? try again, or a longer timeout",
        )

    def _lost(self, error: BaseException) -> ConnectionLost:
        why = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        return ConnectionLost(
            Error.network_exception,
            f"broker {self.address} closed the connection{why} with {len(self._in_flight)} requests unanswered; "
            "it may have stopped or refused what it was sent: see its log",
        )

    def _not_kafka(self, what: str) -> ConnectionLost:
        return ConnectionLost(
            Error.network_exception,
            f"{self.address} does not speak Kafka's protocol ({what}); is this a broker's PLAINTEXT port?",
        )

    def _read(self, api: Api, version: int, frame: Frame) -> Any:
        try:
            return read_response(api, version, frame)[1]
        except MalformedRequest as error:
            raise self._unreadable(api, version, error.message) from error

    def _unreadable(self, api: Api, version: int, why: str) -> ConnectionLost:
        return ConnectionLost(
            Error.network_exception,
            f"broker {self.address} sent an answer to {api.name} v{version} that cannot be read ({why}); "
            "is it a Kafka broker?",
        )
