"""Who drives the sockets, who is called back, and who must be woken: with threads that stop, raise or do nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kafka_classic import Producer
from tests.client.scripted import Request
from tests.producer.scripted import TOPIC, Log, leader

QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 10}


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_flush_ends_though_a_broker_that_answers_nothing_reads_nothing_either(log: Log) -> None:
    go = threading.Event()

    def script(request: Request) -> Any:
        assert go.wait(60)

    settings = {**QUICK, "acks": 0, "request_timeout_ms": 200, "delivery_timeout_ms": 300}
    with leader(log, script) as broker, Producer(broker.address, settings) as producer:
        try:
            for _ in range(30):  # more than the sockets' buffers hold
                producer.send(TOPIC, bytes(1_000_000))
            producer.flush(20)
        finally:
            producer.close(0)
            go.set()
