"""The cases of the broker as a process: how soon it serves, and what it holds in memory while gigabytes pass."""

from __future__ import annotations

import threading

from bench.load import sockets
from bench.load.frames import batch_below, produce_frame
from bench.load.measure import Case, Goal, Sample, forget_peak, memory_kb
from bench.load.producing import CLASSIC, LARGE_MESSAGE
from bench.load.target import Target

PARTITIONS = 8
SEGMENT = {"segment.bytes": str(32 << 20), "retention.bytes": str(64 << 20)}
IN_FLIGHT = 4


def start_up(target: Target) -> Sample:
    """From the start of the process until it serves and stands in ZooKeeper."""
    took, cpu_s = target.restart()
    return Sample({"s": took}, cpu_s, took, 1, "start")


def memory(target: Target) -> Sample:
    """Gigabytes in through eight partitions and out again to two readers, old segments deleted all the while."""
    records, count = batch_below(1_000_000, LARGE_MESSAGE)
    gigabytes = 2 if target.quick else 10
    batches = int(gigabytes * 1e9 / len(records) / PARTITIONS)
    failures: list[BaseException] = []
    done = threading.Event()

    def write(topic: str, partition: int) -> None:
        with sockets.connect(target.address) as sock:
            frame = produce_frame(CLASSIC, topic, partition, records)
            size = len(sockets.ask(sock, frame))
            for number in range(batches):
                sock.sendall(frame)
                if number >= IN_FLIGHT:
                    sockets.read_exactly(sock, size)
            sockets.read_exactly(sock, size * min(IN_FLIGHT, batches))

    def read(topic: str, partition: int) -> None:
        with sockets.connect(target.address) as sock:
            sockets.drain_log(
                sock, topic, partition, 0, 1 << 62, (len(records), count), 1 << 20, discard=True, stopped=done.is_set
            )

    def guarded(work: object, *args: object) -> None:
        try:
            work(*args)  # type: ignore[operator]
        except BaseException as error:
            failures.append(error)

    with target.topic(PARTITIONS, SEGMENT) as topic:
        writers = [threading.Thread(target=guarded, args=(write, topic, p)) for p in range(PARTITIONS)]
        readers = [threading.Thread(target=guarded, args=(read, topic, p)) for p in range(2)]
        forget_peak(target.pid)
        before = memory_kb(target.pid, "VmRSS")
        with target.meter() as meter:
            for thread in [*writers, *readers]:
                thread.start()
            for thread in writers:
                thread.join()
        done.set()
        peak = memory_kb(target.pid, "VmHWM")
        for thread in readers:
            thread.join()
    if failures:
        raise failures[0]
    values = {"peak": peak / 1000, "before": before / 1000, "rate": gigabytes / meter.wall_s}
    note = f"{gigabytes} GB in at {values['rate']:.2f} GB/s, {before / 1000:.0f} MB before"
    return Sample(values, meter.cpu_s, meter.wall_s, gigabytes, "GB", note)


CASES = (
    Case("start-up", "from process start to ready", (Goal("s", "s", 3, False),), start_up),
    Case("memory", "broker memory while gigabytes go through", (Goal("peak", "MB", 100, False),), memory, repeats=1),
)
