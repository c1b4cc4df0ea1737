"""A batch's records into the bytes that are sent, compressed once however often it is sent again."""

from __future__ import annotations

from kafka_classic.producer.batch import Batch
from kafka_classic.producer.lane import Lane
from kafka_classic.producer.settings import ProducerSettings
from kafka_classic.records.batch import seal
from kafka_classic.records.encode import encode_batch


class Packer:
    """Packs by one codec; gives numbers to the batches of an idempotent lane."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._codec = settings.codec
        self._level = settings.level

    def pack(self, lane: Lane, batch: Batch) -> None:
        producer = lane.producer
        if producer is None:
            if batch.data is None:
                batch.packed(encode_batch(batch.records, self._codec, level=self._level))
            return
        if batch.data is None:
            batch.packed(
                encode_batch(
                    batch.records,
                    self._codec,
                    level=self._level,
                    producer_id=producer.id,
                    producer_epoch=producer.epoch,
                    base_sequence=lane.number(batch, len(batch.records)),
                )
            )
        elif batch.producer is not producer:
            data = bytearray(batch.data)
            sequence = lane.number(batch, batch.count)
            seal(data, producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=sequence)
            batch.data = data
