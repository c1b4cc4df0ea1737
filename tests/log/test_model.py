"""The log against a list: whatever is done to both, they hold the same records."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_classic.log.config import LogConfig
from kafka_classic.log.errors import OffsetOutOfRange
from kafka_classic.log.log import Log
from kafka_classic.records.codecs import Codec
from tests.log.batches import NOW_MS, batch, header_of, records

sizes = st.lists(st.sampled_from([0, 1, 10, 100, 700]), min_size=1, max_size=5)


class LogAgainstList(RuleBasedStateMachine):
    """Records are (offset, timestamp, value, end of its batch); the list's start and end are the log's."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.now_ms = NOW_MS
        self.number = 0
        self.model: list[tuple[int, int, bytes]] = []
        self.batches: list[tuple[int, int]] = []  # first offset, next offset
        self.flushed = 0

    @initialize(classic=st.booleans(), interval=st.sampled_from([0, 150, 4096]))
    def open(self, classic: bool, interval: int) -> None:
        self.config = LogConfig(
            segment_bytes=1500, index_interval_bytes=interval, classic=classic, retention_ms=10_000, segment_ms=5_000
        )
        self.log = Log.open(Path(self._folder.name) / "t-0", self.config, clock=self.clock)

    def clock(self) -> float:
        return self.now_ms / 1000

    def _stage(self, lengths: list[int], codec: Codec, back: int) -> None:
        values = []
        for length in lengths:
            values.append(b"%d:" % self.number + bytes(length))
            self.number += 1
        timestamp = self.now_ms - back
        one = batch(*values, timestamp=timestamp, codec=codec)
        base = self.log.stage(one, header_of(one), 0)
        assert base == (self.batches[-1][1] if self.batches else base)
        self.model += [(base + i, timestamp + i, value) for i, value in enumerate(values)]
        self.batches.append((base, base + (len(one) if self.config.classic else len(values))))

    @rule(turn=st.lists(sizes, min_size=1, max_size=6), codec=st.sampled_from(Codec), back=st.integers(0, 3000))
    def append(self, turn: list[list[int]], codec: Codec, back: int) -> None:
        end = self.log.end_offset
        for lengths in turn:
            self._stage(lengths, codec, back)
            assert self.log.end_offset == end
        self.log.commit()
        assert self.log.end_offset == self.batches[-1][1]

    @rule(by=st.integers(1, 4000))
    def time_passes(self, by: int) -> None:
        self.now_ms += by

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule()
    def clean(self) -> None:
        expired = self.now_ms - self.config.retention_ms
        start = self.log.start_offset
        deleted = self.log.clean(self.clock())
        assert self.log.start_offset >= start
        assert all(r[1] < expired for r in self.model if start <= r[0] < self.log.start_offset)
        assert len(deleted) == len(set(deleted))
        self._forget_below(self.log.start_offset)

    @rule(lengths=sizes)
    def clean_in_the_middle_of_a_turn(self, lengths: list[int]) -> None:
        self._stage(lengths, Codec.NONE, 0)
        self.clean()
        self.log.commit()
        assert self.log.end_offset == self.batches[-1][1]

    @rule(choice=st.floats(0, 1))
    def delete_records(self, choice: float) -> None:
        exposed = self.log.exposed_offset
        offsets = [r[0] for r in self.model if r[0] <= exposed] + [exposed]
        offset = offsets[int(choice * (len(offsets) - 1))]
        self.log.advance_start_offset(offset)
        self._forget_below(self.log.start_offset)

    @rule(choice=st.floats(0, 1))
    def truncate(self, choice: float) -> None:
        offsets = [r[0] for r in self.model] + [self.log.end_offset]
        self.log.truncate_to(offsets[int(choice * (len(offsets) - 1))])
        end = self.log.end_offset
        self.batches = [b for b in self.batches if b[1] <= end] or [(end, end)]
        assert self.batches[-1][1] == end
        self.model = [r for r in self.model if r[0] < end]

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        end, point, start = self.log.end_offset, self.log.recovery_point, self.log.start_offset
        if clean:
            self.log.close()
            point = end
        self.log = Log.open(
            self.log.dir, self.config, clean=clean, recovery_point=point, log_start=start, clock=self.clock
        )
        assert (self.log.start_offset, self.log.end_offset) == (start, end)
        assert self.log.exposed_offset == end

    @precondition(lambda self: self.model)
    @rule(choice=st.floats(0, 1), max_bytes=st.sampled_from([1, 200, 1000, 10_000]))
    def read(self, choice: float, max_bytes: int) -> None:
        exposed = self.log.exposed_offset
        start = self.model[int(choice * (len(self.model) - 1))][0]
        expected = [r for r in self.model if start <= r[0] < exposed]
        got = records(self.log, start, max_bytes)
        assert [(r.offset, r.timestamp, r.value) for r in got] == expected

    @precondition(lambda self: self.model)
    @rule(choice=st.floats(0, 1), shift=st.integers(-3, 3))
    def find_timestamp(self, choice: float, shift: int) -> None:
        timestamp = self.model[int(choice * (len(self.model) - 1))][1] + shift
        exposed = [r for r in self.model if r[0] < self.log.exposed_offset]
        expected = next(((r[0], r[1]) for r in exposed if r[1] >= timestamp), None)
        assert self.log.offset_for_timestamp(timestamp) == expected
        largest = max(((r[1], -r[0]) for r in exposed), default=None)
        assert self.log.max_timestamp() == (largest and (-largest[1], largest[0]))

    @invariant()
    def offsets_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert log.start_offset <= log.exposed_offset <= log.end_offset
        assert log.recovery_point <= log.end_offset
        assert log.exposed_offset == (log.recovery_point if self.config.classic else log.end_offset)
        assert log.size == sum(path.stat().st_size for path in log.dir.glob("*.log"))
        for outside in (log.start_offset - 1, log.end_offset + 1):
            with pytest.raises(OffsetOutOfRange):
                log.read(outside, 100)

    def _forget_below(self, start: int) -> None:
        self.model = [r for r in self.model if r[0] >= start]

    def teardown(self) -> None:
        self._folder.cleanup()


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
