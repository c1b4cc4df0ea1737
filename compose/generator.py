"""The demo's load: numbered events at a steady pace, until SIGTERM; `--audit` has them counted.

python generator.py events --rate 50 --bootstrap broker-0:9092
"""

import argparse
import json
import signal
import sys
import threading
import time
from typing import Any

from kafka_classic import Producer
from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.producer.futures import RecordFuture
from kafka_classic.wire.errors import KafkaError

PAGES = ("home", "search", "jobs", "profile", "inbox")
REPORT_S = 10.0


def main() -> None:
    """Send `rate` events a second and say every ten seconds how many were acknowledged."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("topic")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--rate", type=float, default=50.0, help="events a second")
    parser.add_argument("--audit", action="store_true", help="tell __audit how many there were in each window")
    given = parser.parse_args()
    stop = threading.Event()
    for which in (signal.SIGTERM, signal.SIGINT):
        signal.signal(which, lambda *_: stop.set())

    with Cluster(given.bootstrap) as cluster:
        if given.topic not in cluster.metadata().topics:
            create_topics(cluster, [NewTopic(given.topic, given.partitions)])
    told = {"acknowledged": 0, "failed": 0}
    settings: dict[str, Any] = {"audit": True} if given.audit else {}
    with Producer(given.bootstrap, linger_ms=20, **settings) as producer:
        number, began, reported = 0, time.monotonic(), time.monotonic()
        waiting: list[RecordFuture] = []
        while not stop.wait(max(0.0, began + number / given.rate - time.monotonic())):
            user = number * 7919 % 1000
            event = {"number": number, "page": PAGES[number % len(PAGES)], "user": user}
            waiting.append(producer.send(given.topic, json.dumps(event).encode(), key=b"%d" % user))
            number += 1
            if time.monotonic() - reported >= REPORT_S:
                waiting = count(waiting, told)
                print(f"{number} sent, {told['acknowledged']} acknowledged, {told['failed']} failed", flush=True)
                reported = time.monotonic()
    count(waiting, told)
    print(f"{number} sent, {told['acknowledged']} acknowledged, {told['failed']} failed", flush=True)


def count(waiting: list[RecordFuture], told: dict[str, int]) -> list[RecordFuture]:
    """Add what has been answered; return what has not."""
    for future in (one for one in waiting if one.done()):
        try:
            future.result()
            told["acknowledged"] += 1
        except KafkaError as error:
            told["failed"] += 1
            print(f"not acknowledged: {error}", file=sys.stderr, flush=True)
    return [one for one in waiting if not one.done()]


if __name__ == "__main__":
    main()
