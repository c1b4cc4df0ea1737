"""Sabotage at known places: the audit names each, with count, window and tier, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_classic.audit.findings import Cell, Verdict, worst
from kafka_classic.audit.judge import LOG, PRODUCER, judge
from kafka_classic.client.monitoring import Event, Share
from kafka_classic.client.spans import Run, add_run
from kafka_classic.records.batch import crc_of, read_header
from kafka_classic.records.encode import encode_batch
from tests.audit.worlds import GROUP, WAREHOUSE, WINDOW_MS, CellKey, World, flip, moved_to, with_altered_record

DAMAGE = ("missing", "doubled", "extra", "altered", "disordered", "deleted")


def lose_a_batch(world: World, key: CellKey) -> None:
    lost = world.rng.choice(world.batches_of(key))
    world.log[lost.topic, lost.partition].remove(lost)
    world.must_find(key, LOG, missing=len(lost.records))


def replay_a_batch(world: World, key: CellKey) -> None:
    again = world.rng.choice(world.batches_of(key))
    log = world.log[again.topic, again.partition]
    end = read_header(log[-1].data).next_offset
    copy = type(again)(*[*vars(again).values()])
    copy.data = moved_to(again.data, end)
    log.append(copy)
    world.must_find(key, LOG, doubled=len(again.records))


def alter_a_batch(world: World, key: CellKey) -> None:
    made = world.rng.choice(world.batches_of(key))
    made.data = with_altered_record(made.data, world.rng)
    world.must_find(key, LOG, altered=1)


def break_a_batch(world: World, key: CellKey) -> None:
    made = world.rng.choice(world.batches_of(key))
    made.data = flip(made.data, world.rng.randrange(61, len(made.data)), sealed=False)
    world.must_find(key, LOG, altered=len(made.records))


def swap_batches(world: World, key: CellKey) -> None:
    partition = world.batches_of(key)[0].partition
    one, other = [made for made in world.batches_of(key) if made.partition == partition][:2]
    first = read_header(one.data).base_offset
    second = read_header(other.data).next_offset - len(one.records)
    one.data, other.data = moved_to(one.data, second), moved_to(other.data, first)
    log = world.log[key.topic, partition]
    here, there = log.index(one), log.index(other)
    log[here], log[there] = other, one
    world.must_find(key, LOG, disordered=1)


def drop_rows(world: World, key: CellKey) -> None:
    rows = world.rows_of(key)
    start = world.rng.randrange(len(rows))
    lost = rows[start : start + world.rng.randint(1, 10)]
    for row in lost:
        world.rows[row["topic"], row["partition"]].remove(row)
    world.must_find(key, WAREHOUSE, missing=len(lost))


def double_rows(world: World, key: CellKey) -> None:
    rows = world.rows_of(key)
    again = rows[: world.rng.randint(1, 10)]
    for row in again:
        world.rows[row["topic"], row["partition"]].append(dict(row))
    world.must_find(key, WAREHOUSE, doubled=len(again))


def alter_a_row(world: World, key: CellKey) -> None:
    row = world.rng.choice(world.rows_of(key))
    row["value"] = (row["value"] or b"") + b"."
    world.must_find(key, WAREHOUSE, altered=1)


def swap_values(world: World, key: CellKey) -> None:
    rows = world.rows_of(key)
    one = rows[0]
    other = next(row for row in rows[1:] if row["partition"] == one["partition"] and row["value"] != one["value"])
    one["value"], other["value"] = other["value"], one["value"]
    world.must_find(key, WAREHOUSE, altered=1)


def move_a_row_in_time(world: World, key: CellKey) -> None:
    row = world.rng.choice(world.rows_of(key))
    row["timestamp"] += 7 * 24 * 3600 * 1000
    world.must_find(key, WAREHOUSE, altered=1)


def lose_and_double(world: World, key: CellKey) -> None:
    """The count stays the same."""
    rows = world.rows_of(key)
    one, other = rows[0], rows[1]
    world.rows[one["topic"], one["partition"]].remove(one)
    world.rows[other["topic"], other["partition"]].append(dict(other))
    world.must_find(key, WAREHOUSE, missing=1, doubled=1)


def skip_in_the_group(world: World, key: CellKey) -> None:
    partition, runs = next(iter(world.group[key].items()))
    lost = runs.pop(world.rng.randrange(len(runs)))
    world.group[key][partition] = runs
    world.must_find(key, GROUP, missing=lost.size)


def read_again_in_the_group(world: World, key: CellKey) -> None:
    runs = next(iter(world.group[key].values()))
    runs.append(runs[0])
    world.must_find(key, GROUP, Verdict.COMPLETE)


def producer_dies(world: World, key: CellKey) -> None:
    world.open.add(key)
    for tier in (PRODUCER, LOG, WAREHOUSE, GROUP):
        world.must_find(key, tier, Verdict.UNKNOWN)


def producer_says_nothing(world: World, key: CellKey) -> None:
    del world.accounts[key]
    for tier in (PRODUCER, LOG, WAREHOUSE, GROUP):
        world.must_find(key, tier, Verdict.UNKNOWN)


def sent_twice_under_other_numbers(world: World, key: CellKey) -> None:
    """A batch was sent again under the next epoch, since its acknowledgement was lost; both copies are there."""
    made = world.rng.choice(world.batches_of(key))
    share = world.accounts[key].shares[made.partition, made.producer]
    share.replaced.append(Run(7, 0, 5))
    first = read_header(world.log[made.topic, made.partition][-1].data).next_offset
    copy = type(made)(*[*vars(made).values()])
    copy.records = [(None, b"again", (), made.records[0][3])] * 5
    copy.data = encode_batch(
        copy.records, base_offset=first, producer_id=made.producer, producer_epoch=7, base_sequence=0
    )
    world.log[made.topic, made.partition].append(copy)
    world.must_find(key, LOG, doubled=5)


def given_up_and_yet_there(world: World, key: CellKey) -> None:
    """What was given up may be in the log: no damage."""
    made = world.rng.choice(world.batches_of(key))
    share = world.accounts[key].shares[made.partition, made.producer]
    share.failed.append(Run(3, 0, 2))
    world.must_find(key, LOG, Verdict.COMPLETE)


SABOTAGES: list[Callable[[World, CellKey], None]] = [
    lose_a_batch,
    replay_a_batch,
    alter_a_batch,
    break_a_batch,
    swap_batches,
    drop_rows,
    double_rows,
    alter_a_row,
    swap_values,
    move_a_row_in_time,
    lose_and_double,
    skip_in_the_group,
    read_again_in_the_group,
    producer_dies,
    producer_says_nothing,
    sent_twice_under_other_numbers,
    given_up_and_yet_there,
]
PER_WORLD = 22


def found_in(cells: list[Cell]) -> dict[tuple[CellKey, str], tuple[Verdict, dict[str, int]]]:
    return {
        (CellKey(cell.topic, cell.window, cell.producer), tier): (
            at.verdict,
            {kind: getattr(at, kind) for kind in DAMAGE if getattr(at, kind)},
        )
        for cell in cells
        for tier, at in cell.tiers.items()
    }


@pytest.mark.parametrize("seed", range(12))
def test_every_sabotage_is_found_where_it_was_done_and_nothing_else(seed: int) -> None:
    world = World(seed)
    keys = sorted({made.key for made in world.made})
    world.rng.shuffle(keys)
    done: Counter[str] = Counter()
    for turn, key in enumerate(keys[:PER_WORLD]):
        sabotage = SABOTAGES[(turn + seed) % len(SABOTAGES)]
        sabotage(world, key)
        done[sabotage.__name__] += 1
    assert done.total() == PER_WORLD

    found = found_in(world.audit())

    moved = {key for key in found if key[0].window > max(made.window for made in world.made)}
    wrong = {}
    for place, (verdict, counts) in found.items():
        if place in moved:
            continue  # where a row's new time put it
        truth = world.truth.get(place)
        expected = (truth.verdict, truth.counts) if truth else (Verdict.COMPLETE, {})
        if (verdict, counts) != expected:
            wrong[place] = f"found {verdict} {counts}, was {expected}"
    assert not wrong
    assert set(world.truth) <= set(found)


def test_a_world_without_sabotage_is_complete_and_its_contents_were_compared() -> None:
    world = World(99)
    cells = world.audit()
    assert len(cells) == len(world.accounts)
    assert worst(cell.verdict for cell in cells) is Verdict.COMPLETE
    assert all(cell.tiers[LOG].compared and cell.tiers[WAREHOUSE].compared for cell in cells)
    assert sum(cell.published for cell in cells) == sum(len(made.records) for made in world.made)


def test_a_batch_with_a_wrong_checksum_is_named_by_its_offsets() -> None:
    world = World(5, topics=1, partitions=1, producers=2)
    made = world.made[3]
    break_a_batch(world, made.key)
    (broken,) = [
        one for one in world.batches_of(made.key) if crc_of(one.data, 0, len(one.data)) != read_header(one.data).crc
    ]
    (cell,) = [cell for cell in world.audit() if cell.verdict is Verdict.DAMAGED]
    (finding,) = cell.tiers[LOG].findings
    run = broken.run()
    assert (finding.epoch, finding.first, finding.next) == (-1, run.first_offset, run.last_offset + 1)


def test_what_was_deleted_from_the_log_is_unknown_there_and_known_in_the_warehouse() -> None:
    world = World(7, topics=1, partitions=1, producers=1)
    start = 25
    world.bounds[LOG]["topic-0", 0].begin = start
    cells = world.audit()
    assert sum(cell.tiers[LOG].deleted for cell in cells) == start
    assert {cell.tiers[LOG].verdict for cell in cells if cell.tiers[LOG].deleted} == {Verdict.UNKNOWN}
    assert sum(cell.tiers[LOG].missing for cell in cells) == 0
    assert worst(cell.tiers[WAREHOUSE].verdict for cell in cells) is Verdict.COMPLETE


def test_what_came_after_the_events_were_read_is_no_damage_yet_and_what_was_there_before_is() -> None:
    for after, verdict, extra in ((0, Verdict.UNKNOWN, 0), (10, Verdict.DAMAGED, 10)):
        world = World(6, topics=1, partitions=1, producers=1)
        made = world.made[-1]
        copy = type(made)(*[*vars(made).values()])
        copy.records = [(None, b"late", (), made.records[0][3])] * 10
        first = read_header(made.data).next_offset
        copy.data = encode_batch(copy.records, base_offset=first, producer_id=0, producer_epoch=0, base_sequence=90_000)
        world.log["topic-0", 0].append(copy)
        world.bounds[LOG]["topic-0", 0].sure = first + after
        (*rest, last) = world.audit()
        assert (last.tiers[LOG].verdict, last.tiers[LOG].extra) == (verdict, extra)
        assert worst(cell.verdict for cell in rest) is Verdict.COMPLETE


def test_a_window_that_its_producer_never_counted_is_unknown_and_nothing_in_it_is_called_extra() -> None:
    world = World(11, topics=1, partitions=1, producers=1)
    key = world.made[-1].key
    world.open.add(key)
    world.accounts[key].shares.clear()
    (*rest, last) = world.audit()
    for tier in (LOG, WAREHOUSE):
        told = last.tiers[tier]
        assert told.verdict is Verdict.UNKNOWN
        assert told.count == sum(len(made.records) for made in world.batches_of(key))
        assert ([getattr(told, kind) for kind in DAMAGE], told.findings) == ([0] * len(DAMAGE), [])
    assert worst(cell.verdict for cell in rest) is Verdict.COMPLETE


def test_what_is_not_loaded_yet_is_unknown_and_what_is_gone_before_that_is_missing() -> None:
    world = World(8, topics=1, partitions=1, producers=1)
    rows = world.rows["topic-0", 0]
    end = rows[-10]["offset"]
    world.bounds[WAREHOUSE]["topic-0", 0].end = end
    del rows[-10:]
    del rows[5]
    cells = world.audit()
    assert cells[-1].tiers[WAREHOUSE].verdict is Verdict.UNKNOWN
    assert cells[0].tiers[WAREHOUSE].missing == 1
    (finding,) = cells[0].tiers[WAREHOUSE].findings
    assert (finding.first, finding.next) == (5, 6)


def test_a_partition_that_cannot_be_read_makes_its_windows_unknown() -> None:
    world = World(9, topics=1)
    world.bounds[LOG]["topic-0", 0].why = "no leader"
    world.log["topic-0", 0].clear()
    cells = world.audit()
    assert {cell.tiers[LOG].verdict for cell in cells} == {Verdict.UNKNOWN}
    assert all("no leader" in cell.tiers[LOG].why for cell in cells)


def test_a_member_that_died_between_its_work_and_its_word_leaves_a_doubt_not_a_loss() -> None:
    world = World(10, topics=1, partitions=1, producers=1)
    first = world.made[0].key
    lost = world.group[first][0].pop()
    world.bounds[GROUP]["topic-0", 0].doubtful = [(lost.first_offset, lost.last_offset + 1)]
    cells = world.audit()
    assert cells[0].tiers[GROUP].verdict is Verdict.UNKNOWN
    assert worst(cell.tiers[GROUP].verdict for cell in cells[1:]) is Verdict.COMPLETE


@pytest.mark.parametrize("start", range(1, 200, 13))
def test_a_log_that_was_cut_among_the_messages_of_several_producers_shows_no_damage(start: int) -> None:
    world = World(7, topics=1, partitions=1, producers=3)
    world.bounds[LOG]["topic-0", 0].begin = start
    cells = world.audit()
    told = [cell.tiers[LOG] for cell in cells]
    assert Verdict.DAMAGED not in {at.verdict for at in told}
    gone = start - sum(at.expected - at.count for at in told)
    assert gone == 0
    assert {at.verdict for at in told if at.count < at.expected} == {Verdict.UNKNOWN}


def test_what_is_lost_behind_the_cut_is_missing_whoever_else_wrote_between() -> None:
    world = World(7, topics=1, partitions=1, producers=3, windows=1)
    lost = [made for made in world.made if made.producer == 1][-2]
    world.log["topic-0", 0].remove(lost)
    world.bounds[LOG]["topic-0", 0].begin = world.made[1].run().first_offset
    told = {cell.producer: cell.tiers[LOG] for cell in world.audit()}
    assert (told[1].verdict, told[1].missing) == (Verdict.DAMAGED, len(lost.records))
    assert Verdict.DAMAGED not in {told[0].verdict, told[2].verdict}


@pytest.mark.parametrize("start", range(1, 200, 13))
def test_a_group_that_began_among_the_messages_of_several_producers_lost_nothing(start: int) -> None:
    world = World(7, topics=1, partitions=1, producers=3)
    world.bounds[GROUP]["topic-0", 0].begin = start
    for partitions in world.group.values():
        partitions[0] = []
    for made in world.made:
        epoch, first, next, low, high = made.run()
        if high >= start:
            skipped = max(0, start - low)
            run = Run(epoch, first + skipped, next, low + skipped, high)
            add_run(world.group[made.key][0], run)
    told = [cell.tiers[GROUP] for cell in world.audit()]
    assert Verdict.DAMAGED not in {at.verdict for at in told}
    assert sum(at.expected - at.count for at in told) == start
    assert {at.verdict for at in told if at.count < at.expected} == {Verdict.UNKNOWN}


def test_what_a_compacted_topic_replaced_is_not_missing_in_the_warehouse() -> None:
    world = World(11, topics=1, partitions=1, producers=1)
    world.bounds[LOG]["topic-0", 0].why = "the topic is compacted"
    world.bounds[LOG]["topic-0", 0].compacted = True
    world.log["topic-0", 0].clear()
    del world.rows["topic-0", 0][3:9]
    first, *rest = world.audit()
    assert (first.tiers[WAREHOUSE].verdict, first.tiers[WAREHOUSE].missing) == (Verdict.UNKNOWN, 0)
    assert "compacted" in first.tiers[WAREHOUSE].why
    assert {cell.tiers[WAREHOUSE].verdict for cell in rest} == {Verdict.COMPLETE}


@pytest.mark.parametrize(("settle_ms", "verdict"), [(10**16, Verdict.UNKNOWN), (0, Verdict.DAMAGED)])
def test_what_was_sent_with_acks_0_has_time_to_become_visible_too(settle_ms: int, verdict: Verdict) -> None:
    world = World(12, topics=1, partitions=1, producers=1)
    lost = world.made[0]
    world.log["topic-0", 0].remove(lost)
    for account in world.accounts.values():
        for share in account.shares.values():
            share.tally.runs = [run._replace(first_offset=-1, last_offset=-1) for run in share.tally.runs]
    (dossier,) = world.dossiers()
    first, *_ = judge(replace(dossier, settle_ms=settle_ms))
    assert first.tiers[LOG].verdict is verdict


def test_a_producer_of_longer_windows_than_others_is_judged_by_its_own() -> None:
    world = World(13, topics=1, partitions=1, producers=1, windows=6)
    (dossier,) = world.dossiers()
    longer = 3 * WINDOW_MS
    begin = min(event.window for event in dossier.events)
    begin -= begin % longer
    assert begin % longer == 0
    merged: dict[int, Event] = {}
    for event in dossier.events:
        window = event.window - event.window % longer
        known = merged.setdefault(window, replace(event, window=window, window_ms=longer, shares=[]))
        known.shares = [_sum([*known.shares, *event.shares])]
    cells = judge(replace(dossier, events=list(merged.values())))
    assert [cell.window for cell in cells] == sorted(merged)
    assert {cell.verdict for cell in cells} == {Verdict.COMPLETE}
    assert sum(cell.tiers[LOG].count for cell in cells) == sum(cell.published for cell in cells)
    assert all(cell.tiers[WAREHOUSE].compared for cell in cells)


def _sum(shares: list[Share]) -> Share:
    whole = Share(0, 0)
    for share in shares:
        whole.tally.add(share.tally)
    return whole
