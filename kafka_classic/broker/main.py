"""A broker as a process: starts, says that it is ready, serves until it is told to stop."""

from __future__ import annotations

import gc
import logging
import signal
import sys

import gevent
from gevent.event import Event

from kafka_classic.broker.broker import Broker
from kafka_classic.settings import BrokerSettings


def run(settings: BrokerSettings) -> None:
    """Run a broker until SIGTERM or SIGINT; raises before it serves if it cannot start."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    told = Event()
    running = gevent.getcurrent()

    def stop() -> None:
        # Whatever it waits for, perhaps a ZooKeeper that went away while it starts, it waits no longer.
        if not told.is_set():
            told.set()
            gevent.kill(running)

    gevent.signal_handler(signal.SIGTERM, stop)
    gevent.signal_handler(signal.SIGINT, stop)
    broker = Broker(settings)
    try:
        broker.start()
        # What is alive now stays alive: the collector need not walk it again and again.
        gc.collect()
        gc.freeze()
        where = ", ".join(f"{e.host or '*'}:{e.port}" for e in broker.endpoints)
        print(f"broker {settings.broker_id} ready on {where}", flush=True)
        broker.ended.wait()
        if broker.failed is not None:
            raise broker.failed
    except gevent.GreenletExit:
        pass
    finally:
        broker.stop()
    print(f"broker {settings.broker_id} stopped", flush=True)
