"""The judge of a group's journals sees each thing that it is there to see."""

from __future__ import annotations

from pathlib import Path

from kafka_classic.testing.journal import Event, Journal, Stint, What, judge, read, stints


def stint(member: str, *handed: tuple[int, int]) -> Stint:
    return Stint(member, 0, list(handed))


def test_what_was_noted_is_read_back_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "one")
    journal.note(What.READY)
    journal.note(What.TOOK_OVER, 3)
    journal.note(What.HANDED, 3, 41)
    journal.close()
    events = list(read(tmp_path / "one"))
    assert [(event.what, event.partition, event.offset) for event in events] == [
        (What.READY, -1, -1),
        (What.TOOK_OVER, 3, -1),
        (What.HANDED, 3, 41),
    ]
    assert [event.at for event in events] == sorted(event.at for event in events)


def test_a_half_written_event_of_a_killed_member_is_left_out(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "one")
    journal.note(What.HANDED, 0, 7)
    journal.close()
    with open(tmp_path / "one", "ab") as file:
        file.write(b"\x02\x00")
    assert [event.offset for event in read(tmp_path / "one")] == [7]


def test_a_member_that_never_began_has_no_events(tmp_path: Path) -> None:
    assert list(read(tmp_path / "none")) == []


def test_taking_a_partition_over_again_is_a_new_stint() -> None:
    events = [
        Event(What.TOOK_OVER, 0, -1, 1),
        Event(What.HANDED, 0, 10, 2),
        Event(What.TOOK_OVER, 0, -1, 5),
        Event(What.HANDED, 0, 10, 6),
    ]
    assert stints("a", iter(events)) == [stint("a", (10, 2)), stint("a", (10, 6))]


def test_all_read_once_and_in_order_is_clean() -> None:
    verdict = judge({"a": [stint("a", (0, 1), (1, 2))], "b": [stint("b", (2, 3))]}, {0: range(3)})
    assert verdict.clean
    assert (verdict.handed, verdict.handed_again) == (3, 0)


def test_a_record_that_nobody_was_handed_is_missed() -> None:
    verdict = judge({"a": [stint("a", (0, 1), (2, 2))]}, {0: range(3)})
    assert verdict.missed == {0: [1]}
    assert not verdict.clean
    assert "missed in partition 0: [1]" in str(verdict)


def test_a_record_read_again_by_the_next_owner_is_allowed_and_counted() -> None:
    verdict = judge({"a": [stint("a", (0, 1), (1, 2))], "b": [stint("b", (1, 3))]}, {0: range(2)})
    assert verdict.clean
    assert verdict.handed_again == 1


def test_a_zombie_that_reads_on_is_seen() -> None:
    verdict = judge({"a": [stint("a", (0, 1), (1, 4), (2, 5))], "b": [stint("b", (1, 3))]}, {0: range(2)})
    assert [(first.member, second.member) for first, second in verdict.read_by_two] == [("a", "b")]
    assert not verdict.clean


def test_the_one_message_in_hand_when_a_partition_goes_may_be_noted_late() -> None:
    assert judge({"a": [stint("a", (0, 1), (1, 4))], "b": [stint("b", (1, 3))]}, {0: range(2)}).clean


def test_a_step_back_within_a_stint_is_out_of_order() -> None:
    verdict = judge({"a": [stint("a", (1, 1), (0, 2))]}, {0: range(2)})
    assert [one.member for one in verdict.out_of_order] == ["a"]
    assert not verdict.clean


def test_one_that_does_not_begin_at_the_committed_offset_is_seen() -> None:
    events = [Event(What.TOOK_OVER, 0, 5, 1), Event(What.HANDED, 0, 6, 2)]
    verdict = judge({"a": stints("a", iter(events))}, {0: [6]})
    assert [one.committed for one in verdict.elsewhere] == [5]
    assert "begun by a at 6, not at 5" in str(verdict)
    assert not verdict.clean
    begun_there = [Event(What.TOOK_OVER, 0, 6, 1), Event(What.HANDED, 0, 6, 2)]
    assert judge({"a": stints("a", iter(begun_there))}, {0: [6]}).clean
