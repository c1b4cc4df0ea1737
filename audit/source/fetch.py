"""The raw record batches of one range of offsets, from whoever leads the partition, with attempts until it does.

for chunk in fetch_range(cluster, Range("events", 0, 100, 5_000)):
    for pos, header in chunk.batches: ...        # bytes in chunk.data; the first and last may lead over the range
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafka_classic.audit.source.plan import Range
from kafka_classic.client.chunk import Chunk
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import Refused
from kafka_classic.client.fetch_packed import FetchLimits
from kafka_classic.client.fetcher import Fetcher
from kafka_classic.client.offsets import LATEST, list_offsets
from kafka_classic.wire.errors import Error, KafkaError

log = logging.getLogger(__name__)

LIMITS = FetchLimits(partition_max_bytes=4 << 20)
_QUIET_S = 2.0  # without a record in a range that should have some: ask whether they are still there
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets that were to be read and are not there any more."""

    lost: Range
    why: str

    def __str__(self) -> str:
        return f"{self.lost} are lost: {self.why}"


class DataLost(Refused):
    """Records that were to be read are gone; says which."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(
            Error.offset_out_of_range, f'{loss}; to read on without them set failOnDataLoss to "false" and start again'
        )
        self.loss = loss


OnLoss = Callable[[Loss], None]


def fail(loss: Loss) -> None:
    raise DataLost(loss)


def tolerate(loss: Loss) -> None:
    log.warning("%s", loss)


def fetch_range(
    cluster: Cluster,
    wanted: Range,
    *,
    limits: FetchLimits = LIMITS,
    on_loss: OnLoss = fail,
    patience: float = _PATIENCE_S,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Chunk]:
    """Yield the chunks that cover the range, in order; the next is fetched while one is worked on.

    What is missing at its beginning or its end is told to `on_loss`, which raises or lets it pass. Gaps between
    batches are no loss: compaction and transactions leave them.
    """
    position = wanted.start
    first_there = 0
    if not wanted.size:
        return

    def out_of_range(topic: str, partition: int, offset: int, log_start: int) -> int:
        nonlocal first_there
        if log_start <= offset:
            raise _Ended(Error.offset_out_of_range)
        first_there = log_start
        on_loss(Loss(wanted._replace(start=offset, end=min(log_start, wanted.end)), _deleted(log_start)))
        return log_start

    with Fetcher(cluster, {wanted.at: position}, limits, out_of_range=out_of_range) as fetcher:
        heard_at = clock()
        doubts = 0
        while (position := max(position, first_there)) < wanted.end:
            try:
                chunk = fetcher.next(_QUIET_S)
            except _Ended:
                on_loss(Loss(wanted._replace(start=position), "the log ends before them; was the topic made anew?"))
                return
            if chunk is not None:
                heard_at, doubts = clock(), 0
                yield chunk
                if chunk.damage is not None:
                    raise chunk.damaged(chunk.next_offset, chunk.damage)
                position = max(position, chunk.next_offset)
                continue
            # A leader that was just elected may not know yet how far others have come: believe it the second time.
            ends = list_offsets(cluster, {wanted.at: LATEST})[wanted.at].offset
            doubts = doubts + 1 if ends < wanted.end else 0
            if doubts > 1 and ends <= position:
                on_loss(Loss(wanted._replace(start=position), f"the log ends at {ends}; a leader lost records"))
                return
            if clock() - heard_at > patience:
                raise KafkaError(
                    Error.request_timed_out,
                    f"nothing came of {wanted._replace(start=position)} for {patience:g} s: is its leader overloaded?",
                )


def _deleted(log_start: int) -> str:
    return f"the log begins at {log_start} now, its retention has deleted what was before"


class _Ended(Refused):
    """The place to read from is beyond the end of the log."""
