"""What becomes of a batch after its leader's answer: a pure decision."""

from __future__ import annotations

from enum import Enum

from kafka_classic.wire.errors import Error, KafkaError


class Verdict(Enum):
    ACKNOWLEDGED = "acknowledged"
    RETRY = "retry"
    RENEW = "renew"  # send again under a new producer id: the leader holds no batch that this one could follow
    FAIL = "fail"


_WRITTEN = frozenset({Error.none, Error.duplicate_sequence_number})
_SEQUENCE_BROKEN = frozenset(
    {Error.out_of_order_sequence_number, Error.unknown_producer_id, Error.invalid_producer_epoch}
)


def judge(error: KafkaError | None, *, idempotent: bool, behind_a_failure: bool, retries_left: bool) -> Verdict:
    """Decide on a batch; `behind_a_failure`: one sent before it to the same partition must be sent again."""
    if error is None or error.code in _WRITTEN:
        return Verdict.ACKNOWLEDGED
    if idempotent and error.code in _SEQUENCE_BROKEN:
        # Behind a batch that failed, the next one is out of order until that one has been sent again. At the head it
        # means that one before it was given up, or that the broker lost its memory: this one was not written, and
        # is none of the attempts that `retries` counts.
        return Verdict.RETRY if behind_a_failure else Verdict.RENEW
    return Verdict.RETRY if error.retriable and retries_left else Verdict.FAIL
