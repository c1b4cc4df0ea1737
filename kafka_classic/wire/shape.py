"""The shape of a repeated Produce request: one producer sends one partition the same bytes around ever new records.

All of a request but its correlation id and its records is the same from one to the next. So a request is recognised
with one `startswith` in place of parsing, and answered with one `pack`. The first of them is parsed (`read_produce`),
and its shape is kept by the connection that it came on.
"""

import struct
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kafka_classic.wire.errors import MalformedRequest
from kafka_classic.wire.varint import Buffer, read_uvarint, uvarint

if TYPE_CHECKING:
    from kafka_classic.wire.bodies import RequestHeader
    from kafka_classic.wire.produce import ProduceRequest

FIRST_FLEXIBLE: Final = 9
INT32: Final = struct.Struct(">i")


class ProduceShape:
    """What stays the same in the requests for one partition, and the answer to all of them."""

    __slots__ = (
        "acks",
        "flexible",
        "has_start",
        "key_version",
        "mid",
        "partition",
        "prefix",
        "response",
        "size",
        "suffix",
        "tail",
        "timeout_ms",
        "topic",
        "transactional_id",
    )

    key_version: int  # the first four bytes of a frame: API key and version
    prefix: bytes  # from after the correlation id up to, and without, the length of the records
    suffix: bytes  # what follows the records: tag buffers, or nothing
    response: struct.Struct  # size, correlation id, mid, base offset, log append time(, log start offset), tail
    size: int
    mid: bytes
    tail: bytes
    flexible: bool
    has_start: bool  # whether the response has a log start offset: from version 5
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic: str | UUID
    partition: int

    @classmethod
    def of(
        cls, buf: Buffer, frame_start: int, frame_end: int, header: "RequestHeader", request: "ProduceRequest"
    ) -> "ProduceShape | None":
        """Return the shape of a parsed request, or None if it is not one topic's one partition with records."""
        if len(request.topics) != 1 or len(request.topics[0][1]) != 1:
            return None
        topic, [(partition, start, end)] = request.topics[0]
        if start == end:
            return None
        version = header.api_version
        self = cls()
        self.flexible = version >= FIRST_FLEXIBLE
        if self.flexible:
            length_at = start - len(uvarint(end - start + 1))
            if read_uvarint(buf, length_at) != (end - start + 1, start):
                return None  # a length in more bytes than it needs
        else:
            length_at = start - 4
        self.key_version = header.api_key << 16 | version
        self.prefix = bytes(buf[frame_start + 8 : length_at])
        self.suffix = bytes(buf[end:frame_end])
        self.transactional_id, self.acks, self.timeout_ms = request.transactional_id, request.acks, request.timeout_ms
        self.topic, self.partition = topic, partition
        self._prepare_response(version)
        return self

    def _prepare_response(self, version: int) -> None:
        raw = self.topic.bytes if isinstance(self.topic, UUID) else self.topic.encode()
        if self.flexible:
            name = raw if isinstance(self.topic, UUID) else uvarint(len(raw) + 1) + raw
            self.mid = b"\0\2" + name + b"\2" + struct.pack(">ih", self.partition, 0)
            # no record errors, no message, no tags of partition and topic, not throttled, no tags
            self.tail = b"\1\0\0\0" + bytes(4) + b"\0"
        else:
            one = INT32.pack(1)
            self.mid = one + struct.pack(">h", len(raw)) + raw + one + struct.pack(">ih", self.partition, 0)
            self.tail = (bytes(4) + b"\xff\xff" if version >= 8 else b"") + bytes(4)
        self.has_start = version >= 5
        numbers = "qqq" if self.has_start else "qq"
        self.response = struct.Struct(f">ii{len(self.mid)}s{numbers}{len(self.tail)}s")
        self.size = self.response.size - 4

    def pack_ok(self, correlation_id: int, base_offset: int, log_append_time: int, log_start: int) -> bytes:
        """Return the whole frame that says the records were written."""
        if self.has_start:
            return self.response.pack(
                self.size, correlation_id, self.mid, base_offset, log_append_time, log_start, self.tail
            )
        return self.response.pack(self.size, correlation_id, self.mid, base_offset, log_append_time, self.tail)

    def pack_error(self, correlation_id: int, error: int) -> bytes:
        """Return the whole frame that says the records were not written."""
        mid = self.mid[:-2] + struct.pack(">h", error)
        numbers = (-1, -1, -1) if self.has_start else (-1, -1)
        return self.response.pack(self.size, correlation_id, mid, *numbers, self.tail)

    def records_at(self, buf: bytes | bytearray, pos: int, frame_end: int) -> tuple[int, int] | None:
        """Return where the records start and end, given the position after the prefix; None if the shape does not fit.

        A frame that lies about its lengths does not fit: it is left to the parser, which refuses it.
        """
        if not self.flexible:
            start = pos + 4
            if start < frame_end and start + INT32.unpack_from(buf, pos)[0] == frame_end:
                return start, frame_end
            return None
        suffix = self.suffix
        end = frame_end - len(suffix)
        if end - pos < 2:
            return (
                None  # no room for a length and a byte; three bytes of tags at least follow, so far it is safe to look
            )
        size = buf[pos]
        if size > 127:
            byte = buf[pos + 1]
            if byte < 128:
                size = size & 127 | byte << 7
                pos += 2
            else:
                last = buf[pos + 2]
                if last < 128:
                    size = size & 127 | (byte & 127) << 7 | last << 14
                    pos += 3
                else:
                    size, pos = self._long_length(buf, pos)
        else:
            pos += 1
        if size > 1 and pos + size - 1 == end and buf.startswith(suffix, end):
            return pos, end
        return None

    @staticmethod
    def _long_length(buf: bytes | bytearray, pos: int) -> tuple[int, int]:
        try:
            return read_uvarint(buf, pos)
        except (IndexError, MalformedRequest):
            return 0, pos
