"""What becomes of a batch is decided by its error, its place, and the attempts left."""

from __future__ import annotations

import pytest

from kafka_classic.producer.verdict import Verdict, judge
from kafka_classic.wire.errors import Error, KafkaError

LOST = Error.network_exception
DISORDER = Error.out_of_order_sequence_number


@pytest.mark.parametrize(
    ("code", "idempotent", "behind", "left", "verdict"),
    [
        (None, True, False, True, Verdict.ACKNOWLEDGED),
        (Error.duplicate_sequence_number, True, False, True, Verdict.ACKNOWLEDGED),
        (LOST, True, False, True, Verdict.RETRY),
        (LOST, True, False, False, Verdict.FAIL),
        (LOST, False, False, True, Verdict.RETRY),
        (Error.message_too_large, True, False, True, Verdict.FAIL),
        (DISORDER, True, True, True, Verdict.RETRY),
        (DISORDER, True, True, False, Verdict.RETRY),
        (DISORDER, True, False, True, Verdict.RENEW),
        (DISORDER, True, False, False, Verdict.RENEW),
        (Error.unknown_producer_id, True, False, True, Verdict.RENEW),
        (DISORDER, False, False, True, Verdict.FAIL),
    ],
)
def test_a_batch_is_judged(code: Error | None, idempotent: bool, behind: bool, left: bool, verdict: Verdict) -> None:
    error = None if code is None else KafkaError(code)
    assert judge(error, idempotent=idempotent, behind_a_failure=behind, retries_left=left) is verdict
