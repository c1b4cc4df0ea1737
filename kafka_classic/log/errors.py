"""What a log refuses, each by the Kafka error that it becomes on the wire."""


class StorageError(OSError):
    """The disk failed this log: it is offline until the broker restarts (KAFKA_STORAGE_ERROR)."""


class OffsetOutOfRange(ValueError):
    """The offset is below the log's start or above its end (OFFSET_OUT_OF_RANGE)."""


class OffsetsOutOfOrder(ValueError):
    """Batches of a leader do not continue the follower's log."""


class DuplicateSequence(Exception):
    """The batch was written before; the producer is told the offset that it got then."""

    def __init__(self, base_offset: int, log_append_time: int) -> None:
        super().__init__(f"written before, at offset {base_offset}")
        self.base_offset = base_offset
        self.log_append_time = log_append_time


class OutOfOrderSequence(ValueError):
    """An idempotent producer skipped or repeated a sequence number (OUT_OF_ORDER_SEQUENCE_NUMBER)."""


class InvalidProducerEpoch(ValueError):
    """A newer instance of this producer has written already (INVALID_PRODUCER_EPOCH)."""


class UnknownProducerId(ValueError):
    """Nothing is known of this producer although it must have written before (UNKNOWN_PRODUCER_ID)."""
