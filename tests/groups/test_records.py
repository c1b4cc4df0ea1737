"""The records of the offsets topic are Kafka's, byte for byte; the golden bytes were made from its schemas by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_classic.groups.records import (
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
    OffsetValue,
    UnknownRecord,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group,
    read_key,
    read_offset,
)

OFFSET_KEY = "0001 0005 67726f7570 0006 6f7264657273 00000007"
OFFSET_V3 = "0003 00000000000003e9 00000005 0004 6d657461 0000018c251f6c00"
GROUP_KEY = "0002 0005 67726f7570"
MEMBER = "0003 632d31 0004 6e6f6465 0001 63 000a 2f3132372e302e302e31 0000ea60 0000afc8 00000002 abcd 00000001 ff"
GROUP_V3 = f"0003 0008 636f6e73756d6572 0000000c 0005 72616e6765 0003 632d31 0000018c251f6c00 00000001 {MEMBER}"
EMPTY_V3 = "0003 0008 636f6e73756d6572 0000000d ffff ffff 0000018c251f6c00 00000000"
AT = 0x18C251F6C00
HEAD = "0001 63 00000001 0001 72 0001 6d"  # of type c, generation 1, protocol r, led by m
OLD = "0001 6d 0001 69 0001 68"  # member m of client i on h
NOTHING = "00000000 00000000"


def raw(golden: str) -> bytes:
    return bytes.fromhex(golden.replace(" ", ""))


ONE = MemberValue("c-1", "node", "c", "/127.0.0.1", 60_000, 45_000, b"\xab\xcd", b"\xff")


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    assert offset_key("group", "orders", 7) == raw(OFFSET_KEY)
    assert offset_value(OffsetValue(1001, 5, "meta", AT)) == raw(OFFSET_V3)
    assert read_key(raw(OFFSET_KEY)) == OffsetKey("group", "orders", 7)
    assert read_offset(raw(OFFSET_V3)) == OffsetValue(1001, 5, "meta", AT)


def test_a_group_is_written_as_kafka_writes_it() -> None:
    value = GroupValue("consumer", 12, "range", "c-1", AT, (ONE,))
    assert group_key("group") == raw(GROUP_KEY)
    assert group_value(value) == raw(GROUP_V3)
    assert read_key(raw(GROUP_KEY)) == GroupKey("group")
    assert read_group(raw(GROUP_V3)) == value


def test_a_group_without_members_has_no_protocol_and_no_leader() -> None:
    value = GroupValue("consumer", 13, None, None, AT, ())
    assert group_value(value) == raw(EMPTY_V3)
    assert read_group(raw(EMPTY_V3)) == value


@pytest.mark.parametrize(
    ("golden", "value"),
    [
        ("0000 00000000000003e9 0004 6d657461 0000018c251f6c00", OffsetValue(1001, -1, "meta", AT)),
        (
            "0001 00000000000003e9 0004 6d657461 0000018c251f6c00 0000018c251f6c01",
            OffsetValue(1001, -1, "meta", AT, AT + 1),
        ),
        ("0002 00000000000003e9 0004 6d657461 0000018c251f6c00", OffsetValue(1001, -1, "meta", AT)),
        # Version 4 is flexible, with the topic's id in a tag.
        (
            f"0004 00000000000003e9 00000005 05 6d657461 0000018c251f6c00 01 00 10 {'11' * 16}",
            OffsetValue(1001, 5, "meta", AT),
        ),
    ],
)
def test_offsets_of_every_version_are_read(golden: str, value: OffsetValue) -> None:
    assert read_offset(raw(golden)) == value


@pytest.mark.parametrize(
    ("golden", "since", "rebalance", "instance"),
    [
        (f"0000 {HEAD} 00000001 {OLD} 0000afc8 {NOTHING}", -1, 45_000, None),
        (f"0001 {HEAD} 00000001 {OLD} 0000ea60 0000afc8 {NOTHING}", -1, 60_000, None),
        (f"0002 {HEAD} 0000018c251f6c00 00000001 {OLD} 0000ea60 0000afc8 {NOTHING}", AT, 60_000, None),
        (
            "0004 02 63 00000001 02 72 02 6d 0000018c251f6c00 02 02 6d 02 73 02 69 02 68 0000ea60 0000afc8 01 01 00 00",
            AT,
            60_000,
            "s",
        ),
    ],
)
def test_groups_of_every_version_are_read(golden: str, since: int, rebalance: int, instance: str | None) -> None:
    member = MemberValue("m", instance, "i", "h", rebalance, 45_000, b"", b"")
    assert read_group(raw(golden)) == GroupValue("c", 1, "r", "m", since, (member,))


@pytest.mark.parametrize("golden", ["", "00", "0003 0001 67", "ffff", "0001 0009 67", "0002 0002 67"])
def test_a_key_that_is_not_known_or_cut_short_is_refused(golden: str) -> None:
    with pytest.raises(UnknownRecord):
        read_key(raw(golden))


@given(st.binary(max_size=60))
def test_garbage_is_refused_and_nothing_worse(garbage: bytes) -> None:
    for read in (read_key, read_offset, read_group):
        try:
            read(garbage)
        except UnknownRecord:
            pass


def test_every_cut_of_a_value_is_refused() -> None:
    for golden, read in ((OFFSET_V3, read_offset), (GROUP_V3, read_group)):
        for cut in range(len(raw(golden))):
            with pytest.raises(UnknownRecord):
                read(raw(golden)[:cut])
