"""The compacted log against a dictionary: whatever is done to both, every key has its last value at its offset."""

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafka_classic.log.compaction import Cancelled
from kafka_classic.log.log import Log
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import Record
from tests.log.batches import NOW_MS, records
from tests.log.compacted import COMPACT, check_whole, keyed, last_of_each

KEYS = st.sampled_from([b"", b"a", b"b", b"c", b"d", b"e" * 40])
VALUES = st.none() | st.sampled_from([b"1", b"2", b"3" * 300])
RETENTION_MS = 5000


class CompactedLogAgainstDict(RuleBasedStateMachine):
    """`written` is all that was ever written and not cut off; of it, all may go but the last of each key."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.now_ms = NOW_MS
        self.written: list[Record] = []
        self.due = 0

    @initialize(interval=st.sampled_from([0, 150, 4096]), size=st.sampled_from([400, 2000]))
    def open(self, interval: int, size: int) -> None:
        self.config = replace(
            COMPACT, segment_bytes=size, index_interval_bytes=interval, delete_retention_ms=RETENTION_MS
        )
        self.log = Log.open(Path(self._folder.name) / "t-0", self.config, clock=self.clock)

    def clock(self) -> float:
        return self.now_ms / 1000

    @rule(
        rows=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=20),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.SNAPPY]),
        times=st.integers(1, 4),
        idempotent=st.booleans(),
    )
    def append(self, rows: list[tuple[bytes, bytes | None]], codec: Codec, times: int, idempotent: bool) -> None:
        for _ in range(times):
            known = self.log.producers.producers.get(1)
            self.due = known.due if known is not None and known.due >= 0 else 0
            header = {"producer_id": 1, "producer_epoch": 0, "base_sequence": self.due} if idempotent else {}
            base = self.log.append(keyed(rows, codec, self.now_ms, **header))
            self.written += [Record(base + n, self.now_ms + n, key, value, ()) for n, (key, value) in enumerate(rows)]

    @rule()
    def roll_and_flush(self) -> None:
        self.log.roll()
        self.log.flush()

    @rule(by=st.integers(1, 4000))
    def time_passes(self, by: int) -> None:
        self.now_ms += by

    @rule(memory=st.sampled_from([300, 1000, 1 << 20]), upto=st.none() | st.floats(0, 1))
    def compact(self, memory: int, upto: float | None) -> None:
        self.log.roll()
        self.log.flush()
        mark = None if upto is None else int(self.log.end_offset * upto)
        clean = self.log.first_dirty
        done = self.log.compact(self.clock(), mark, memory=memory)
        if done is not None:
            assert done.error is None
            assert self.log.first_dirty > clean
            below = [r.key for r in records(self.log) if r.offset < self.log.first_dirty]
            assert len(below) == len(set(below))

    @rule(do=st.sampled_from(["append", "truncate", "roll", "nothing"]), choice=st.floats(0, 1))
    def something_happens_between_the_steps_of_a_pass(self, do: str, choice: float) -> None:
        self.roll_and_flush()
        dirt = self.log.dirt(self.clock())
        if dirt is None or not dirt.dirty_bytes:
            return
        compaction = self.log.begin_compaction(dirt, self.clock())
        done = False
        try:
            compaction.read_keys()
            groups = compaction.groups()
            for number, group in enumerate(groups):
                changed = compaction.rewrite(group)
                if number == int(choice * len(groups)):
                    if do == "append":
                        self.append([(b"a", b"4"), (b"b", None)], Codec.NONE, 3, False)
                    elif do == "truncate":
                        self.truncate(choice)
                    elif do == "roll":
                        self.log.roll()
                if changed:
                    self.log.swap(compaction, group)
            done = True
        except Cancelled:
            assert do == "truncate"
        self.log.end_compaction(compaction, done=done)
        compaction.discard()

    @rule(choice=st.floats(0, 1))
    def truncate(self, choice: float) -> None:
        at = int(self.log.end_offset * choice)
        under_way = self.log.compaction.upto if self.log.compaction is not None else 0
        compacted = max(self.log.first_dirty, under_way)
        self.log.truncate_to(at)
        assert self.log.end_offset <= at
        self.written = [r for r in self.written if r.offset < self.log.end_offset]
        if at < compacted:
            # What was cut off had replaced what was compacted away before it: only unclean elections do this.
            self.written = records(self.log, 0 if self.log.start_offset == 0 else None)

    @rule(choice=st.floats(0, 1))
    def delete_records(self, choice: float) -> None:
        self.log.advance_start_offset(int(self.log.end_offset * choice * choice))

    @rule(clean=st.booleans(), lost=st.booleans())
    def reopen(self, clean: bool, lost: bool) -> None:
        end, point, start, cleaned = (
            self.log.end_offset,
            self.log.recovery_point,
            self.log.start_offset,
            self.log.cleaned_to,
        )
        if clean:
            self.log.close()
            point = end
        self.log = Log.open(
            self.log.dir,
            self.config,
            clean=clean,
            recovery_point=0 if lost and not clean else point,
            log_start=start,
            cleaned_to=0 if lost else cleaned,
            clock=self.clock,
        )
        assert (self.log.start_offset, self.log.end_offset) == (start, end)

    @invariant()
    def the_last_of_each_key_is_there_and_nothing_else_came(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        found = records(log)
        visible = [r for r in self.written if r.offset >= log.start_offset]
        assert set(found) <= set(visible)
        assert [r.offset for r in found] == sorted({r.offset for r in found})
        present = set(found)
        last = last_of_each(self.written)
        for record in last.values():
            if record.offset >= log.start_offset and record.value is not None:
                assert record in present
        # A deleted key does not come back: if its tombstone is gone, so is all before it.
        for key, record in last.items():
            if record.value is None and record not in present and record.offset >= log.start_offset:
                assert not any(r.key == key for r in found)
        check_whole(log)

    def teardown(self) -> None:
        self._folder.cleanup()


TestCompactedLogAgainstDict = CompactedLogAgainstDict.TestCase
TestCompactedLogAgainstDict.settings = settings(
    max_examples=30, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
