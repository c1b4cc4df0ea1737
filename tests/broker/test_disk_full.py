"""A full disk or a refused write: the partition goes offline, the broker lives, nothing acknowledged is lost."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.records.decode import decode_records
from kafka_classic.testing.cluster import LocalCluster
from tests.broker.raw import Raw, batch, fetch, produce


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path) as cluster:
        yield cluster


def create(cluster: LocalCluster, *names: str) -> None:
    with Cluster(cluster.bootstrap) as client:
        create_topics(client, [NewTopic(name) for name in names])


def fill(raw: Raw, topic: str, size: int, most: int) -> tuple[list[int], Error]:
    """Produce until an error comes; returns the acknowledged offsets and the error."""
    acknowledged: list[int] = []
    for number in range(most):
        error, offset = produce(raw, topic, batch(b"%d " % number + b"v" * size))
        if error:
            return acknowledged, Error(error)
        acknowledged.append(offset)
    return acknowledged, Error.none


def numbers(address: str, topic: str) -> list[int]:
    """The number of every record of the topic, in order."""
    found: list[int] = []
    with Raw(address) as raw:
        at = 0
        while True:
            error, high_watermark, records = fetch(raw, topic, at)
            assert error == 0
            if at == high_watermark:
                return found
            for record in decode_records(records):
                found.append(int((record.value or b"").split(b" ")[0]))
                at = record.offset + 1


def test_a_write_that_the_system_refuses_takes_one_partition_offline(cluster: LocalCluster) -> None:
    create(cluster, "grows", "stays")
    broker = cluster.brokers[0]
    pid = broker.pid
    assert pid is not None
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
    with Raw(broker.address) as raw:
        acknowledged, error = fill(raw, "grows", 10_000, 200)
        assert error is Error.kafka_storage_error
        assert 40 < len(acknowledged) < 50
        # Offline means offline: for writing and for reading, on this connection and on others.
        assert produce(raw, "grows", batch(b"again"))[0] == Error.kafka_storage_error.value
        assert fetch(raw, "grows", 0)[0] == Error.kafka_storage_error.value
        assert produce(raw, "stays", batch(b"7 untouched"))[0] == 0
    assert broker.pid == pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    broker.restart()
    found = numbers(broker.address, "grows")
    assert found == list(range(len(acknowledged)))
    assert numbers(broker.address, "stays") == [7]
    with Raw(broker.address) as raw:
        assert produce(raw, "grows", batch(b"1 after"))[1] == len(acknowledged)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    try:
        made = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command here")
    if made.returncode:
        pytest.skip("a small file system needs the right to mount one")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_loses_nothing_acknowledged_and_space_and_a_restart_mend_it(
    tmp_path: Path, small_disk: Path
) -> None:
    settings = {"log.dirs": str(small_disk / "logs"), "log.segment.bytes": "300000", "log.index.interval.bytes": "1000"}
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"b" * (2 << 20))
    with LocalCluster(tmp_path / "cluster", settings=settings) as cluster:
        create(cluster, "full", "other")
        broker = cluster.brokers[0]
        pid = broker.pid
        with Raw(broker.address) as raw:
            acknowledged, error = fill(raw, "full", 10_000, 1000)
            assert error is Error.kafka_storage_error
            assert len(acknowledged) > 100
            # The broker lives: it answers for other partitions, be it with the same error when they need space too.
            assert Error(produce(raw, "other", batch(b"0 x"))[0]) in (Error.none, Error.kafka_storage_error)
        assert broker.pid == pid
        ballast.unlink()
        broker.restart()
        assert numbers(broker.address, "full") == list(range(len(acknowledged)))
        with Raw(broker.address) as raw:
            assert produce(raw, "full", batch(b"more"))[0] == 0


def test_a_log_folder_that_cannot_be_written_is_refused_at_start(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        blocked = tmp_path / "a-file"
        blocked.write_text("in the way")
        target = blocked / "logs"
    else:
        blocked = tmp_path / "read-only"
        blocked.mkdir(mode=0o500)
        target = blocked / "logs"
    cluster = LocalCluster(tmp_path / "cluster", settings={"log.dirs": str(target)})
    with pytest.raises(Exception, match=r"error: "):
        cluster.start()
    assert "Traceback" not in cluster.brokers[0].log_path.read_text()
