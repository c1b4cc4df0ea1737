"""The records of `__consumer_offsets`, byte for byte as Kafka writes them, so that Kafka's tools can read them.

    key   version 0, 1: group, topic, partition       value  an offset, written as version 3 (null: deleted)
    key   version 2:    group                         value  the group and its members, written as version 3

Read are all versions that Kafka ever wrote: offsets 0 to 4, groups 0 to 4. From 4 on they are flexible.
"""

import struct
from typing import Final, NamedTuple

NO_TIME: Final = -1
NO_EPOCH: Final = -1
OFFSET_KEY, GROUP_KEY = 1, 2
OFFSET_VALUE, GROUP_VALUE = 3, 3
FLEXIBLE: Final = 4

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class OffsetKey(NamedTuple):
    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group: str


class OffsetValue(NamedTuple):
    """An offset as it was committed; times are in milliseconds since 1970."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_at: int
    expires_at: int = NO_TIME  # only what brokers before Kafka 2.1 wrote may have one


class MemberValue(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupValue(NamedTuple):
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_since: int
    members: tuple[MemberValue, ...]


class UnknownRecord(ValueError):
    """A record of a kind or version that this release does not know, or that is cut short."""


# --- writing


def offset_key(group: str, topic: str, partition: int) -> bytes:
    return _SHORT.pack(OFFSET_KEY) + _text(group) + _text(topic) + _INT.pack(partition)


def offset_value(value: OffsetValue) -> bytes:
    return (
        struct.pack(">hqi", OFFSET_VALUE, value.offset, value.leader_epoch)
        + _text(value.metadata)
        + _LONG.pack(value.committed_at)
    )


def group_key(group: str) -> bytes:
    return _SHORT.pack(GROUP_KEY) + _text(group)


def group_value(value: GroupValue) -> bytes:
    pieces = [
        _SHORT.pack(GROUP_VALUE),
        _text(value.protocol_type),
        _INT.pack(value.generation),
        _text(value.protocol),
        _text(value.leader),
        _LONG.pack(value.state_since),
        _INT.pack(len(value.members)),
    ]
    for member in value.members:
        pieces += (
            _text(member.member_id),
            _text(member.instance_id),
            _text(member.client_id),
            _text(member.client_host),
            _INT.pack(member.rebalance_timeout_ms),
            _INT.pack(member.session_timeout_ms),
            _bytes(member.subscription),
            _bytes(member.assignment),
        )
    return b"".join(pieces)


def _text(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    raw = value.encode("utf-8", "surrogatepass")
    return _SHORT.pack(len(raw)) + raw


def _bytes(value: bytes) -> bytes:
    return _INT.pack(len(value)) + value


# --- reading


def read_key(raw: bytes) -> OffsetKey | GroupKey:
    try:
        cursor = _Cursor(raw)
        version = cursor.number(_SHORT)
        if version <= OFFSET_KEY:
            return OffsetKey(cursor.text() or "", cursor.text() or "", cursor.number(_INT))
        if version == GROUP_KEY:
            return GroupKey(cursor.text() or "")
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise UnknownRecord(f"a key is garbage: {error}") from None
    raise UnknownRecord(f"a key of version {version}")


def read_offset(raw: bytes) -> OffsetValue:
    try:
        cursor = _Cursor(raw)
        version = cursor.number(_SHORT)
        if not 0 <= version <= FLEXIBLE:
            raise UnknownRecord(f"an offset of version {version}")
        cursor.flexible = version >= FLEXIBLE
        offset = cursor.number(_LONG)
        epoch = cursor.number(_INT) if version >= 3 else NO_EPOCH
        metadata = cursor.text() or ""
        committed_at = cursor.number(_LONG)
        return OffsetValue(offset, epoch, metadata, committed_at, cursor.number(_LONG) if version == 1 else NO_TIME)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise UnknownRecord(f"an offset is garbage: {error}") from None


def read_group(raw: bytes) -> GroupValue:
    try:
        cursor = _Cursor(raw)
        version = cursor.number(_SHORT)
        if not 0 <= version <= FLEXIBLE:
            raise UnknownRecord(f"a group of version {version}")
        cursor.flexible = version >= FLEXIBLE
        protocol_type, generation = cursor.text() or "", cursor.number(_INT)
        protocol, leader = cursor.text(), cursor.text()
        since = cursor.number(_LONG) if version >= 2 else NO_TIME
        members = tuple(_member(cursor, version) for _ in range(cursor.count()))
        return GroupValue(protocol_type, generation, protocol, leader, since, members)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise UnknownRecord(f"a group is garbage: {error}") from None


def _member(cursor: "_Cursor", version: int) -> MemberValue:
    member_id = cursor.text() or ""
    instance_id = cursor.text() if version >= 3 else None
    client_id, client_host = cursor.text() or "", cursor.text() or ""
    rebalance = cursor.number(_INT) if version >= 1 else -1
    session = cursor.number(_INT)
    member = MemberValue(
        member_id,
        instance_id,
        client_id,
        client_host,
        session if rebalance < 0 else rebalance,
        session,
        cursor.blob(),
        cursor.blob(),
    )
    if cursor.flexible:
        cursor.skip_tags()
    return member


class _Cursor:
    """Reads one field after the other; raises IndexError or struct.error past the end."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0
        self.flexible = False

    def number(self, kind: struct.Struct) -> int:
        value: int = kind.unpack_from(self._raw, self._at)[0]
        self._at += kind.size
        return value

    def text(self) -> str | None:
        size = self._uvarint() - 1 if self.flexible else self.number(_SHORT)
        return None if size < 0 else self._take(size).decode("utf-8", "surrogatepass")

    def blob(self) -> bytes:
        size = self._uvarint() - 1 if self.flexible else self.number(_INT)
        return self._take(max(size, 0))

    def count(self) -> int:
        return self._uvarint() - 1 if self.flexible else self.number(_INT)

    def skip_tags(self) -> None:
        for _ in range(self._uvarint()):
            self._uvarint()
            self._take(self._uvarint())

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._raw):
            raise IndexError("it is cut short")
        piece, self._at = self._raw[self._at : end], end
        return piece

    def _uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self._raw[self._at]
            self._at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
