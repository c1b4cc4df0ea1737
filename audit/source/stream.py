"""Topics as a stream: from which offset to which the next micro-batch goes, and what is done when offsets are gone.

Offsets are told as Spark's Kafka source tells them, {"topic": {"0": 23}}, each the next to be read.

- The first micro-batch of a new query is empty: Spark logs only where a batch *ends*. Were it not, a query that begins
  at `latest` and dies in its first batch would begin at another `latest` and leave out what lies between.
- An exception in partitions() would come after the batch was logged, and again at every restart: so nothing is asked
  there. What can be wrong is found before, by latestOffset(), or by the task that reads.
- A batch never ends before it starts: Spark would take that for progress, and read again what it has read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kafka_classic.audit.source import positions
from kafka_classic.audit.source.fetch import Loss, fail, tolerate
from kafka_classic.audit.source.options import Options, Where
from kafka_classic.audit.source.plan import Range, TopicPartition, between, limited
from kafka_classic.audit.source.read import read_task, tasks
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.offsets import LATEST

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

Told = dict[str, dict[str, int]]
_NO_LIMIT = (1 << 63) - 1


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query's reader: one on the driver that lives as long as the query, copies in its tasks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.check_stream()
        self._options = options
        self._schema = schema
        self._cluster: Cluster | None = None  # only on the driver, and only once it is asked something
        self._begun: Told | None = None
        self._fresh = True  # until a batch is planned, or one that is in the log already runs
        self._last: Told | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._moved_at = time.monotonic()

    def initialOffset(self) -> Told:  # noqa: N802
        # Asked twice for the first batch, before it is planned and when it runs.
        if self._begun is None:
            places = positions.subscribed(self._client(), self._options)
            where = self._options.start or Where(all=LATEST)
            self._begun = told(positions.resolve(self._client(), places, where, "startingOffsets"))
        return self._begun

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # Never "all": by that Spark says that this is its only batch (Trigger.Once), which must not be the empty one.
        return ReadMaxRows(self._options.max_offsets or _NO_LIMIT)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._ends()

    def latestOffset(self, start: Told, limit: ReadLimit) -> Told:  # noqa: N802
        fresh, self._fresh = self._fresh, False
        once = isinstance(limit, ReadAllAvailable)
        if fresh and start == self._begun and not once:
            return start
        before = untold(start)
        ends = self._ends() if self._target is None else self._target
        self._last = told(ends)
        until = self._checked(before, ends)
        if not once:
            until = self._within_limits(before, until, limit)
        return told(until)

    def reportLatestOffset(self) -> Told | None:  # noqa: N802
        return self._last

    def partitions(self, start: Told, end: Told) -> Sequence[InputPartition]:
        self._fresh = False
        return tasks(self._options, between(untold(start), untold(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, self._schema, partition)

    def commit(self, end: Told) -> None:
        """Nothing: the checkpoint has it, and Spark calls this late or never."""

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    # --- inside

    def _client(self) -> Cluster:
        if self._cluster is None:
            self._cluster = positions.connect(self._options)
        return self._cluster

    def _ends(self) -> dict[TopicPartition, int]:
        # One topic that was deleted must not keep the others from being read.
        places = positions.subscribed(self._client(), self._options, gone_too=not self._options.fail_on_data_loss)
        return positions.latest(self._client(), places)

    def _checked(self, before: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The ends, none before its start. What is lost stops the query here, where nothing is logged yet."""
        on_loss = fail if self._options.fail_on_data_loss else tolerate
        begins = positions.earliest(self._client(), ends)
        for at, end in ends.items():
            start = before.get(at, 0)
            if begins[at] > start:
                why = f"the log begins at {begins[at]} now, its retention has deleted what was before"
                on_loss(Loss(Range(*at, start, begins[at]), why))
            if end < start:
                on_loss(Loss(Range(*at, end, start), f"the log ends at {end} now; was the topic made anew?"))
        for at in before.keys() - ends.keys():
            on_loss(Loss(Range(*at, before[at], before[at] + 1), "the partition is gone; was the topic deleted?"))
        return before | {at: max(end, before.get(at, 0)) for at, end in ends.items()}

    def _within_limits(
        self, before: dict[TopicPartition, int], until: dict[TopicPartition, int], limit: ReadLimit
    ) -> dict[TopicPartition, int]:
        least = self._options.min_offsets
        if least is not None and self._target is None:
            waited_ms = (time.monotonic() - self._moved_at) * 1000
            waiting = sum(one.size for one in between(before, until))
            if waiting < least and waited_ms < self._options.max_delay_ms:
                return before
        self._moved_at = time.monotonic()
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else _NO_LIMIT
        return limited(before, until, most)


def told(offsets: dict[TopicPartition, int]) -> Told:
    """Return offsets as JSON tells them."""
    topics: Told = {}
    for (topic, index), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(index)] = offset
    return topics


def untold(offsets: Told) -> dict[TopicPartition, int]:
    """Return offsets as they are worked with."""
    return {(topic, int(index)): offset for topic, indices in offsets.items() for index, offset in indices.items()}
