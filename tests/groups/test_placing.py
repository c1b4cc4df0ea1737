"""Which partition keeps a group: the numbers are Java's."""

import pytest

from kafka_classic.groups.placing import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("g", 103),
        ("hello", 99162322),
        ("Hello, World!", 1498789909),
        ("polygenelubricants", -(2**31)),
        ("é", 233),
        ("😀", 1772899),  # two UTF-16 units: 0xd83d * 31 + 0xde00
    ],
)
def test_the_hash_is_that_of_a_java_string(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_the_partition_is_the_absolute_hash_and_the_least_number_goes_to_0() -> None:
    assert partition_of("g", 50) == 3
    assert partition_of("polygenelubricants", 50) == 0
    assert all(0 <= partition_of(f"group-{n}", 7) < 7 for n in range(1000))
    assert any(java_hash(f"group-{n}" * 3) < 0 for n in range(100))
