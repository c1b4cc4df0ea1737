"""One client's connection: frames in, answers out, in order.

Hot path. A persistent io watcher calls `_readable` in gevent's hub: no greenlet is switched to for Produce and Fetch
(a greenlet a connection costs about 6 µs a request, this about half). All connections receive into one shared 256 KB
buffer and parse every whole request in it; only what is left of a half-received one is kept aside, and a large one is
received straight into a buffer of its own.

States of a connection:
    reading --(a request that may block, or a fetch that waits)--> muted --(answered)--> reading
    reading --(the socket takes no more of the answer)--> draining --(all sent)--> reading
    any --(end of file, an error, a request that is no request)--> closed
Requests of one connection are handled one after the other, so answers keep their order.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any

import gevent
from crc32c import crc32c

from kafka_classic.broker.large import LargeRequest
from kafka_classic.broker.produce import FALL_BACK, ProducePlan
from kafka_classic.log.log import FileSlice
from kafka_classic.records.batch import HEADER_SIZE
from kafka_classic.records.walk import count_records
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import RequestHeader, read_request_header
from kafka_classic.wire.errors import MalformedRequest, UnsupportedVersion

if TYPE_CHECKING:
    from kafka_classic.broker.server import Server

log = logging.getLogger(__name__)

FRAME = Struct(">iIi").unpack_from  # size, api key and version, correlation id
RECORDS = Struct(">iqiibIhiqqqhii").unpack_from  # the records' length and the first batch's header
SIZE = Struct(">i").unpack_from
PRODUCE, FETCH, HEARTBEAT = Api.PRODUCE.value, Api.FETCH.value, Api.HEARTBEAT.value
SMALLEST = HEADER_SIZE + 7  # a batch of one empty record
LARGE = 1 << 16  # a request above this is received into a buffer of its own
A_LITTLE = 4096
MORE = socket.MSG_MORE


class Connection:
    __slots__ = (
        "_large",
        "_out",
        "_plan",
        "_plans",
        "_reader",
        "_rest",
        "_room",
        "_server",
        "_sock",
        "_turn",
        "_writer",
        "active",
        "client_id",
        "closed",
        "delayed",
        "idle",
        "listener",
        "muted",
        "peer",
        "version",
    )

    def __init__(self, server: Server, sock: socket.socket, peer: str, listener: str) -> None:
        self._server = server
        self._sock = sock
        self._turn = server.turn
        self.peer = peer
        self.listener = listener
        self.client_id: str | None = None  # by which the request calls itself that a greenlet handles now …
        self.version = 0  # … and the version of it
        self._rest = b""
        self._large: LargeRequest | None = None
        self._room = 0  # how much to receive of the next request; 0 is all there is
        self._out: deque[Any] = deque()
        self._plan: ProducePlan | None = None
        self._plans: dict[bytes, ProducePlan] = {}
        self.muted = False
        self.closed = False
        self.delayed: Any = None  # the fetch that waits, if one does
        self.active = True  # something moved since the server last looked …
        self.idle = 0  # … and how often it looked since anything did
        self._reader = server.loop.io(sock.fileno(), 1)
        self._writer = server.loop.io(sock.fileno(), 2)
        self._reader.start(self._readable)

    # --- receiving

    def _readable(self) -> None:
        self.active = True
        try:
            if self._large is not None:
                self._receive_large(self._large)
                return
            server = self._server
            view = server.view
            if self._rest:
                have = len(self._rest)
                view[:have] = self._rest
                count = self._sock.recv_into(view[have:])
                if count:
                    self._room = 0
                    self._take(have + count)
                    return
            else:
                count = self._sock.recv_into(view, self._room)
                if count:
                    used = self._process(server.buffer, view, count)
                    if used < count:
                        self._keep(used, count)
                    else:
                        self._room = 0
                    return
            self.close()
        except BlockingIOError:
            return
        except OSError:
            self.close()
        except Exception:
            log.exception("%s could not be served, closed", self.peer)
            self.close()

    def _take(self, end: int) -> None:
        """Handle what stands in the server's buffer up to `end`, and keep what is not whole yet."""
        self._rest = b""
        used = self._process(self._server.buffer, self._server.view, end)
        if used < end:
            self._keep(used, end)

    def _keep(self, used: int, end: int) -> None:
        """Put aside what of the server's buffer is not handled: the begin of a request, or all that came behind one."""
        if self.closed:
            return
        view = self._server.view
        if end - used >= 4 and not self.muted:
            (size,) = SIZE(view, used)
            # A whole one is here only because an answer before it is still being sent: it is handled after that.
            if size + 4 > LARGE and used + 4 + size > end:
                self._begin_large(view[used + 4 : end], size)
                return
        self._rest = bytes(view[used:end])

    def _begin_large(self, first: memoryview, size: int) -> None:
        if not self._fits(size):
            return
        # Whoever sends one large request sends another: all that is received of it with this buffer must be moved.
        self._room = A_LITTLE
        self._large = LargeRequest(self._server, size, first)
        if self._server.starved():
            self._server.wait_for_room(self)
            self._reader.stop()

    def _receive_large(self, large: LargeRequest) -> None:
        if not large.receive(self._sock):
            self.close()
            return
        if not large.whole:
            return
        self._large = None
        try:
            with memoryview(large.buffer) as view:
                self._process(large.buffer, view, large.size)
                if self._turn.answers or self._turn.dirty:
                    self._turn.end()  # before the buffer is lent to another
        finally:
            large.give_back()

    def _fits(self, size: int) -> bool:
        if 8 <= size <= self._server.max_request:
            return True
        log.warning("%s sent a request of %d bytes; closed (socket.request.max.bytes)", self.peer, size)
        self.close()
        return False

    # --- handling

    def _process(self, buf: bytearray, view: memoryview, end: int) -> int:
        """Handle the whole requests in buf[:end]; returns how many bytes they took."""
        plan = self._plan
        off = 0
        while end - off >= 12:
            size, key_version, correlation_id = FRAME(buf, off)
            stop = off + 4 + size
            if stop > end or size < 8:
                if not self._fits(size):
                    return end
                break
            # The same client, topic and partition as before: one comparison in place of parsing.
            if plan is not None and key_version == plan.key_version:
                if buf.startswith(plan.prefix, off + 12):
                    if self._produce_again(plan, buf, view, off, stop, correlation_id):
                        off = stop
                        continue
                else:
                    other = self._plans.get(bytes(view[off + 12 : off + plan.records_at]))
                    if other is not None and other.key_version == key_version:
                        self._plan = plan = other
                        if self._produce_again(plan, buf, view, off, stop, correlation_id):
                            off = stop
                            continue
            self._dispatch(key_version >> 16, buf, view, off + 4, stop)
            if self.closed:
                return end
            plan = self._plan
            off = stop
            if self.muted or self._out:
                break
        if end - off >= 4 and not self.muted:
            (size,) = SIZE(buf, off)
            if not self._fits(size):
                return end
        return off

    def _produce_again(
        self, plan: ProducePlan, buf: bytearray, view: memoryview, off: int, stop: int, correlation_id: int
    ) -> bool:
        """A produce request of a known shape with one sound batch; False where the general path must look at it."""
        partition = plan.partition
        if partition.fast <= plan.pressing:
            return False
        at = off + plan.records_at
        if plan.flexible:
            found = plan.shape.records_at(buf, at, stop)
            if found is None:
                return False
            start, rend = found
            at = start - 4
            length = rend - start
            if length < SMALLEST:
                return False
            fields = RECORDS(buf, at)
        else:
            start = at + 4
            rend = stop
            if stop - start < SMALLEST:
                return False
            fields = RECORDS(buf, at)
            length = fields[0]
            if start + length != stop:
                return False
        _, _, batch_length, _, magic, crc, attributes, last_delta, _, max_timestamp, _, _, _, count = fields
        if (
            batch_length + 12 != length
            or magic != 2
            or not 0 <= attributes <= 4
            or count < 1
            or last_delta != count - 1
            or length > partition.max_batch
            or max_timestamp > partition.latest_timestamp
            or crc32c(view[start + 21 : rend]) != crc
        ):
            return False
        try:
            if attributes == 0:
                # One record of up to 8 KB, by far the most common single one, is checked without a call.
                at = start + HEADER_SIZE
                if count == 1 and buf[at] > 127 and buf[at + 1] < 128:
                    if ((buf[at] & 127 | buf[at + 1] << 7) >> 1) + at + 2 != rend or buf[at] & 1:
                        return False
                elif count_records(buf, at, rend) != count:
                    return False
            base_offset = partition.log.stage(view[start:rend], fields[1:], partition.leader_epoch)
        except FALL_BACK:
            return False
        turn = self._turn
        if not partition.dirty:
            partition.dirty = True
            turn.dirty.append(partition)
        if plan.acks:
            turn.answers.append((self, plan, correlation_id, base_offset))
        return True

    def _dispatch(self, api: int, buf: bytearray, view: memoryview, start: int, stop: int) -> None:
        """Hand one request to its handler; Produce and Fetch run here, all others in a greenlet of their own."""
        try:
            header = read_request_header(buf, start, stop)
            if api == PRODUCE:
                plan = self._server.produce(self, header, buf, view, start, stop)
                if plan is not None:
                    if len(self._plans) >= 256:
                        self._plans.clear()
                    self._plans[plan.prefix] = plan
                    self._plan = plan
                return
            if self._turn.answers or self._turn.dirty:
                self._turn.end()
                if self.closed:
                    return
            if api == FETCH:
                self._server.fetch(self, header, buf, stop)
                return
            if api == HEARTBEAT:
                # It waits for nothing, and comes all the time from every member of every group: no greenlet.
                self.send(self._server.answer(self, header, buf, stop))
                return
        except UnsupportedVersion as unsupported:
            if self._turn.answers:
                self._turn.end()
            reply = self._server.refuse(unsupported)
            if reply is None:
                self.close()
            elif not self.closed:
                self.send(reply)
            return
        except MalformedRequest as error:
            log.warning("%s sent a malformed request, closed: %s", self.peer, error)
            self.close()
            return
        except Exception:
            log.exception("a request of %s failed, closed", self.peer)
            self.close()
            return
        self.mute()
        gevent.spawn(self._handle, header._replace(body_at=header.body_at - start), bytes(view[start:stop]))

    def _handle(self, header: RequestHeader, frame: bytes) -> None:
        try:
            reply = self._server.handle(self, header, frame)
        except MalformedRequest as error:
            log.warning("%s sent a malformed request, closed: %s", self.peer, error)
            self.close()
        except Exception:
            log.exception("request %s of %s failed, closed", header, self.peer)
            self.close()
        else:
            self.unmute([reply])

    # --- muting: one request at a time

    def mute(self) -> None:
        self.muted = True
        self._reader.stop()

    def unmute(self, parts: list[Any]) -> None:
        """Send the answer of the request that muted this connection and go on with the next."""
        if self.closed:
            return
        self.muted = False
        self.delayed = None
        self.send_parts(parts)
        if not self.closed and not self._out:
            self._go_on()

    def _go_on(self) -> None:
        """Handle what was received meanwhile, then read on.

        Later, never now: the end of another connection's turn may have called this, and that one's requests still
        stand in the buffer which all share.
        """
        if self._rest:
            self._server.loop.run_callback(self._continue)
        else:
            self._reader.start(self._readable)

    def _continue(self) -> None:
        if self.closed or self.muted or self._out:
            return
        rest = self._rest
        self._server.view[: len(rest)] = rest
        try:
            self._take(len(rest))
        except Exception:
            log.exception("%s could not be served, closed", self.peer)
            self.close()
        self._turn.end()  # the loop may sleep before it comes to the end of a turn by itself
        if not self.closed and not self.muted and not self._out:
            self._reader.start(self._readable)

    def read_on(self) -> None:
        """There is room again for a large request."""
        if not self.closed and not self.muted and not self._out:
            self._reader.start(self._readable)

    # --- sending

    def send(self, data: bytes) -> None:
        if self.closed:
            return
        if self._out:
            self._out.append(memoryview(data))
            return
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(data):
            # Read no more from one who does not read: its answers would pile up here.
            self._out.append(memoryview(data)[sent:])
            self._reader.stop()
            self._writer.start(self._drain)

    def send_parts(self, parts: list[Any]) -> None:
        """Send bytes and file slices in order; the slices by sendfile (P10)."""
        if self.closed:
            return
        was_idle = not self._out
        self._out.extend(parts)
        if was_idle:
            self._push()
            if self._out and not self.closed:
                self._reader.stop()
                self._writer.start(self._drain)

    def _drain(self) -> None:
        self.active = True
        self._push()
        if not self.closed and not self._out:
            self._writer.stop()
            if not self.muted:
                self._go_on()

    def _push(self) -> None:
        """Send as much as the socket takes."""
        out = self._out
        sock = self._sock
        try:
            while out:
                part = out[0]
                if type(part) is FileSlice:
                    sent = os.sendfile(sock.fileno(), part.file.fileno(), part.position, part.length)
                    if sent == 0:
                        raise OSError("the segment is shorter than its index says")
                    if sent < part.length:
                        out[0] = FileSlice(part.file, part.position + sent, part.length - sent, part.next_offset)
                        continue
                elif part:
                    sent = sock.send(part, MORE if len(out) > 1 else 0)
                    if sent < len(part):
                        out[0] = memoryview(part)[sent:]
                        continue
                out.popleft()
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._reader.close()
        self._writer.close()
        self._out.clear()
        self._rest = b""
        self._plans.clear()
        self._plan = None
        if self._large is not None:
            self._large.give_back()
            self._large = None
        if self.delayed is not None:
            self.delayed.cancel()
            self.delayed = None
        self._sock.close()
        self._server.forget(self)
