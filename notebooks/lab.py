"""What the notebooks do with a cluster besides Kafka itself: start one, wait, watch it over time, show tables.

    cluster = lab.start(brokers=3)      # servers of this notebook alone, in a folder that goes with it
    ...
    lab.stop(cluster)

The servers and the folder go when the kernel ends, however it ends: a cell that fails leaves nothing behind but a
cluster to look at, until the kernel is stopped or started again.
"""

from __future__ import annotations

import atexit
import html
import os
import platform
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.faults import FaultyCluster
from kafka_classic.testing.waiting import until as until  # for the notebooks, too

if TYPE_CHECKING:
    from kafka_classic.zk.session import Session

# Set to "small", a notebook does all it does with less of everything: how the tests run it.
FORM = "KAFKA_CLASSIC_NOTEBOOKS"

T = TypeVar("T")
C = TypeVar("C", bound=LocalCluster)


def size(full: int, small: int) -> int:
    """`full`, or `small` where the tests run the notebook."""
    return small if os.environ.get(FORM) == "small" else full


# --- clusters


def folder() -> Path:
    """A folder that is gone when the kernel ends."""
    made = Path(tempfile.mkdtemp(prefix="kafka-classic-notebook-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def start(brokers: int = 1, settings: Mapping[str, object] | None = None) -> LocalCluster:
    """Start ZooKeeper and brokers that end with this kernel."""
    return _start(LocalCluster(folder(), brokers, settings=_text(settings)))


def start_breakable(brokers: int = 3, settings: Mapping[str, object] | None = None) -> FaultyCluster:
    """Start a cluster whose network can be cut apart: every broker stands behind a proxy."""
    return _start(FaultyCluster(folder(), brokers, _text(settings)))


def stop(cluster: LocalCluster) -> None:
    """End all servers of a cluster and take its data away."""
    cluster.stop()
    shutil.rmtree(cluster.dir, ignore_errors=True)
    print("The cluster is stopped and its data is gone.")


def _start(cluster: C) -> C:
    began = time.monotonic()
    cluster.start(timeout=120.0)
    # Brokers end by themselves when the kernel dies; here in order, while it lives.
    atexit.register(cluster.stop)
    count = len(cluster.brokers)
    word = "broker serves" if count == 1 else "brokers serve"
    print(f"ZooKeeper and {count} {word} after {time.monotonic() - began:.1f} s.")
    return cluster


def _text(settings: Mapping[str, object] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (settings or {}).items()}


# --- waiting and watching


class Sample(NamedTuple, Generic[T]):
    """What was seen at a time, in seconds since the watch began."""

    at: float
    seen: T


@dataclass
class Watch(Generic[T]):
    """What a look showed, again and again, and the moments that were marked meanwhile."""

    samples: list[Sample[T]]
    marks: list[tuple[float, str]]
    began: float

    def mark(self, what: str) -> None:
        """Note that something happens now."""
        self.marks.append((self.now(), what))

    def now(self) -> float:
        return time.monotonic() - self.began

    @property
    def times(self) -> list[float]:
        return [sample.at for sample in self.samples]

    def each(self, pick: Callable[[T], Any]) -> list[Any]:
        return [pick(sample.seen) for sample in self.samples]


@contextmanager
def watching(look: Callable[[], T], every: float = 0.02) -> Iterator[Watch[T]]:
    """Look at something in the background until the block ends; a look that fails is left out."""
    watch: Watch[T] = Watch([], [], time.monotonic())
    over = threading.Event()

    def go_on() -> None:
        while True:
            try:
                seen = look()
            except Exception:
                pass  # what is looked at is being broken: there is no sample then
            else:
                watch.samples.append(Sample(watch.now(), seen))
            if over.wait(every):
                return

    watcher = threading.Thread(target=go_on, name="watching", daemon=True)
    watcher.start()
    try:
        yield watch
    finally:
        over.set()
        watcher.join()


# --- showing


class Table:
    """Rows under headings, as a notebook shows them: HTML where it can be shown, else text."""

    def __init__(self, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        self.headings = [*headings]
        self.rows = [[_cell(value) for value in row] for row in rows]

    def __repr__(self) -> str:
        lines = [self.headings, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.headings))]
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(text)}</th>" for text in self.headings)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}"
    return str(value)


class Spread(NamedTuple):
    """Several runs of one measurement."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, runs: Sequence[float]) -> Spread:
        return cls(statistics.median(runs), min(runs), max(runs))


def machine() -> str:
    """What these figures were measured on, for a caption."""
    return f"{os.cpu_count()} cores, {_processor()}, Linux, Python {platform.python_version()}, all on one machine"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def znodes(session: Session, *below: str) -> Table:
    """All znodes below these paths that hold something: what they say, and whether they go with their writer."""
    from kafka_classic.zk.znodes import Znodes

    nodes = Znodes(session)
    paths = sorted(path for each in below for path in nodes.subtree(each))
    found = zip(paths, nodes.get_many(paths), strict=True)
    return Table(
        ("znode", "lifetime", "what it says"),
        [
            (path, "ephemeral" if node.owner else "persistent", node.data.decode())
            for path, node in found
            if node is not None and node.data
        ],
    )
