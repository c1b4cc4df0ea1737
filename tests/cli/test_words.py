"""The pure parts of the command line: formats, positions, name=value, columns, and the one line of a failure."""

from __future__ import annotations

import json
import os
import random
from datetime import UTC, datetime

import pytest

from kafka_classic.cli.failure import CommandFailed, explain
from kafka_classic.cli.format import Consumed, as_mapping, compile_format
from kafka_classic.cli.lines import ToSend, live_lines, random_values, read_lines
from kafka_classic.cli.options import name_values
from kafka_classic.cli.position import AtOffset, Earliest, FromTime, Latest, read_position
from kafka_classic.cli.produce import chooser
from kafka_classic.cli.show import as_line, plain_lines
from kafka_classic.testing.broker import BrokerDied

RECORD = Consumed("t", 1, 42, 1700000000000, b"k", b"v\xff", (("h", b"1"), ("empty", None)))


def test_a_format_names_every_part_of_a_record() -> None:
    assert compile_format("%t/%p/%o %T %k=%v [%h] 100%%\\t|")(RECORD) == (
        b"t/1/42 1700000000000 k=v\xff [h=1,empty=] 100%\t|\n"
    )


def test_a_null_key_and_value_print_as_nothing() -> None:
    assert compile_format("<%k><%v>")(RECORD._replace(key=None, value=None)) == b"<><>\n"


@pytest.mark.parametrize("text", ["%x", "50%", "% k"])
def test_an_unknown_format_field_is_refused_by_name(text: str) -> None:
    with pytest.raises(CommandFailed, match="does not know"):
        compile_format(text)


def test_json_keeps_bytes_that_are_not_text() -> None:
    line = as_line(as_mapping(RECORD))
    assert "\n" not in line
    assert json.loads(line) == {
        "topic": "t",
        "partition": 1,
        "offset": 42,
        "timestamp": 1700000000000,
        "key": "k",
        "value": {"base64": "dv8="},
        "headers": [["h", "1"], ["empty", None]],
    }


def test_a_position_is_a_word_an_offset_or_a_time() -> None:
    assert read_position("earliest") == Earliest()
    assert read_position("Latest") == Latest()
    assert read_position("42") == AtOffset(42)
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert read_position("2026-01-31T12:00:00+00:00") == FromTime(int(moment.timestamp()) * 1000)
    assert read_position("2026-01-31T12:00:00Z") == FromTime(int(moment.timestamp()) * 1000)


def test_a_time_without_a_zone_is_local() -> None:
    local = datetime(2026, 1, 31, 12).astimezone()
    assert read_position("2026-01-31 12:00") == FromTime(int(local.timestamp()) * 1000)


@pytest.mark.parametrize("text", ["", "-1", "yesterday", "4x"])
def test_a_position_that_means_nothing_is_refused_with_examples(text: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        read_position(text)
    assert "--from 42" in explain(caught.value)


def test_name_values_keep_later_equals_signs_and_the_last_of_two() -> None:
    assert name_values(["a=1=2", " b = x ", "c=", "b=y"], "--set") == {"a": "1=2", "b": "y", "c": ""}


@pytest.mark.parametrize("pair", ["novalue", "=x", " =x"])
def test_a_pair_without_a_name_or_an_equals_sign_is_refused(pair: str) -> None:
    with pytest.raises(CommandFailed, match="is not name=value"):
        name_values([pair], "--config")


def test_columns_line_up_and_numbers_stand_at_the_right() -> None:
    assert plain_lines(["topic", "partitions"], [["a", "1"], ["longer", "10"]], [False, True]) == [
        "topic   partitions",
        "a                1",
        "longer          10",
    ]


def test_a_failure_is_one_line_even_if_its_message_is_not() -> None:
    assert explain(CommandFailed("it\n broke.", "this")) == "it broke; try this"
    assert explain(ValueError("odd\nthing")) == "ValueError: odd thing; try again with --debug, which shows where"
    assert "\n" not in explain(ConnectionRefusedError("refused\n"))
    assert explain(FileNotFoundError(2, "No such file or directory", "x.log")) == "x.log: No such file or directory"


def test_lines_become_values_and_the_first_separator_ends_the_key() -> None:
    assert list(read_lines([b"a\n", b"b\r\n", b"\n", b"last"], None)) == [
        ToSend(None, b"a"),
        ToSend(None, b"b"),
        ToSend(None, b""),
        ToSend(None, b"last"),
    ]
    assert list(read_lines([b"k:v:w\n", b":v\n", b"k:\n"], b":")) == [
        ToSend(b"k", b"v:w"),
        ToSend(b"", b"v"),
        ToSend(b"k", b""),
    ]


def test_a_line_without_the_separator_is_refused_by_its_number() -> None:
    with pytest.raises(CommandFailed, match="line 2 "):
        list(read_lines([b"k:v\n", b"novalue\n"], b":"))


def test_a_pipe_is_read_by_lines_and_a_pause_is_told() -> None:
    reader, writer = os.pipe()
    pauses: list[int] = []
    more = iter([b"a\nb", b"b\n\nlast"])

    def quiet() -> None:
        pauses.append(1)
        data = next(more, None)
        if data is None:
            os.close(writer)
        else:
            os.write(writer, data)

    assert list(live_lines(reader, quiet)) == [b"a", b"bb", b"", b"last"]
    os.close(reader)
    assert len(pauses) == 3


def test_a_key_always_goes_to_the_same_partition_and_keyless_records_take_turns_by_batches() -> None:
    choose = chooser([0, 1, 2], 2)
    assert [choose(ToSend(None, b"")) for _ in range(7)] == [0, 0, 1, 1, 2, 2, 0]
    assert len({choose(ToSend(b"k", b"%d" % i)) for i in range(10)}) == 1
    assert {choose(ToSend(b"%d" % i, b"")) for i in range(50)} == {0, 1, 2}
    assert chooser([5], None)(ToSend(b"k", b"")) == 5


def test_random_values_are_as_many_and_as_large_as_asked() -> None:
    made = list(random_values(50, 20, random.Random(7)))
    assert [len(record.value) for record in made] == [20] * 50
    assert len({record.value for record in made}) > 40


def test_a_server_that_died_is_told_with_the_last_line_of_its_log() -> None:
    died = BrokerDied("broker 0 ended with code 1\n--- end of d/broker-0.log\nstarting\nerror: no ZooKeeper at x:1")
    assert explain(died) == "broker 0 ended with code 1: no ZooKeeper at x:1; try reading d/broker-0.log"
