"""One producer or one consumer of a Kafka broker, as a program of its own; it prints progress as all clients here do.

    python -P bench/peers/kafka_client.py produce librdkafka HOST:PORT TOPIC 100000 --batch 50
    python -P bench/peers/kafka_client.py consume own HOST:PORT TOPIC 100000 --zookeeper HOST:PORT

`librdkafka` is the C library without its Python layer, `own` is kafka_classic's Producer and its message streams.
Nothing is acknowledged (acks=0), as in the paper; the clock stops when the broker, asked for the log's end, has all
messages. A consumer's clock starts at its first message: before that, `own` joins its group. Pulls are of 200 KB.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from confluent_kafka import Consumer as Asking
from confluent_kafka import TopicPartition

from bench.load import librdkafka

PULL = 200_000
STEP = 1000


class Progress:
    """Prints how far the client has come; `count` is asked from a thread of its own."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._over = threading.Event()
        self._cpu = time.process_time_ns()
        self._begin = time.perf_counter_ns()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._say({"ns": 0, "messages": 0})
        self._ticker.start()

    def end(self, count: int) -> None:
        took, used = time.perf_counter_ns() - self._begin, time.process_time_ns() - self._cpu
        self._over.set()
        self._ticker.join()
        self._say({"ns": took, "messages": count, "cpu_ns": used, "done": True})

    def _tick(self) -> None:
        while not self._over.wait(0.1):
            self._say({"ns": time.perf_counter_ns() - self._begin, "messages": self._count()})

    def _say(self, what: dict[str, int]) -> None:
        print(json.dumps(what), flush=True)


class LogEnd:
    """Waits until the broker's log has all that was sent to it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._asking = Asking({"bootstrap.servers": options.bootstrap, "group.id": "bench-end", "log_level": 3})
        self._at = TopicPartition(options.topic, 0)
        self.begin = self.now()

    def now(self) -> int:
        return int(self._asking.get_watermark_offsets(self._at, timeout=60)[1])

    def reach(self, offset: int) -> None:
        deadline = time.monotonic() + 120
        while (now := self.now()) < offset:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{offset} messages were sent, and the log ends at {now}")
            time.sleep(0.002)

    def close(self) -> None:
        self._asking.close()


def produce_by_librdkafka(options: argparse.Namespace, end: LogEnd) -> None:
    settings = {
        "bootstrap.servers": options.bootstrap,
        "acks": 0,
        "log_level": 3,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1 << 18,
        **({"batch.num.messages": options.batch} if options.batch else {}),
        **({"linger.ms": 0} if options.batch == 1 else {}),
    }
    with librdkafka.Producer(settings, options.topic, b"x" * options.size) as producer:
        if options.warm:
            producer.produce(options.warm)
            end.reach(end.begin + options.warm)
        queued = 0
        progress = Progress(lambda: max(0, queued - producer.held()))
        while queued < options.messages:
            queued += producer.queue(options.messages - queued)
        producer.flush()
        end.reach(end.begin + options.warm + options.messages)
        progress.end(options.messages)


def produce_by_own(options: argparse.Namespace, end: LogEnd) -> None:
    from kafka_classic import Producer

    value = b"x" * options.size
    sent = 0
    with Producer(options.bootstrap, acks="0", sync=options.batch == 1) as producer:

        def send(count: int) -> None:
            nonlocal sent
            if options.batch == 1:
                for _ in range(count):
                    producer.send(options.topic, value)
                    sent += 1
            else:
                a_set = [value] * options.batch
                for _ in range(count // options.batch):
                    producer.send_batch(options.topic, a_set)
                    sent += options.batch
            producer.flush()
            end.reach(end.begin + sent)

        if options.warm:
            send(options.warm)
        warm = sent
        progress = Progress(lambda: sent - warm)
        send(options.messages)
        progress.end(sent - warm)


def consume_by_librdkafka(options: argparse.Namespace) -> None:
    settings = {
        "bootstrap.servers": options.bootstrap,
        "group.id": "bench",
        "log_level": 3,
        "fetch.message.max.bytes": PULL,
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 1 << 18,
        "fetch.queue.backoff.ms": 0,
    }
    with librdkafka.Consumer(settings, options.topic, options.start) as consumer:
        got = consumer.consume(1)
        progress = Progress(lambda: got)
        begin = last = time.monotonic()
        while got < options.messages:
            found = consumer.read()
            got += found
            now = time.monotonic()
            last = now if found else last
            if now > last + 60:
                raise TimeoutError(f"librdkafka has read only {got} of {options.messages} messages")
            if options.pace and (ahead := got / options.pace - (now - begin)) > 0:
                time.sleep(ahead)
        progress.end(got)


def consume_by_own(options: argparse.Namespace) -> None:
    from kafka_classic.consumer import ConsumerConnector

    settings = {"auto.offset.reset": "smallest", "fetch.message.max.bytes": PULL, "consumer.timeout.ms": 60_000}
    with ConsumerConnector(options.zookeeper, f"bench-{options.topic}", settings) as connector:
        [stream] = connector.create_message_streams({options.topic: 1})[options.topic]
        next(stream)
        got = 1
        progress = Progress(lambda: got)
        while got < options.messages:
            step = min(STEP, options.messages - got)
            for message in islice(stream, step):
                if message.value is None:
                    raise ValueError(f"the message at {message.offset} has no value")
            got += step
        progress.end(got)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("act", choices=("produce", "consume"))
    parser.add_argument("client", choices=("librdkafka", "own"))
    parser.add_argument("bootstrap", metavar="HOST:PORT")
    parser.add_argument("topic")
    parser.add_argument("messages", type=int)
    parser.add_argument("--size", type=int, default=200, help="bytes of a message")
    parser.add_argument("--batch", type=int, default=50, help="messages of a batch; 0 leaves it to librdkafka")
    parser.add_argument("--warm", type=int, default=0, help="messages to send before the clock starts")
    parser.add_argument("--start", type=int, default=0, help="the offset to read from, by librdkafka")
    parser.add_argument("--pace", type=float, default=0, help="messages a second at the most, by librdkafka")
    parser.add_argument("--zookeeper", metavar="HOST:PORT", help="where `own` finds its group")
    options = parser.parse_args()
    if options.act == "consume":
        (consume_by_own if options.client == "own" else consume_by_librdkafka)(options)
        return 0
    end = LogEnd(options)
    try:
        (produce_by_own if options.client == "own" else produce_by_librdkafka)(options, end)
    finally:
        end.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
