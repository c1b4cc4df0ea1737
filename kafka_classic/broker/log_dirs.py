"""DescribeLogDirs: how much of the disk each partition takes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import kio.schema.describe_log_dirs.v5.response as response
from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.broker.unhurried import Unhurried
from kafka_classic.replication.partition import Partition
from kafka_classic.wire.errors import Error

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

R: Any = response


def describe_log_dirs(broker: Broker, connection: Connection, request: DescribeLogDirsRequest) -> Any:
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {t.topic: set(t.partitions) for t in request.topics}
    topics: dict[str, list[Partition]] = {}
    for partition in broker.hosted:
        if wanted is None or partition.index in wanted.get(partition.topic, ()):
            topics.setdefault(partition.topic, []).append(partition)
    disk = shutil.disk_usage(broker.directory.path)
    result = R.DescribeLogDirsResult(
        error_code=Error.none,
        log_dir=str(broker.directory.path.resolve()),
        topics=Unhurried(_topic, sorted(topics.items())),
        total_bytes=disk.total,
        usable_bytes=disk.free,
    )
    return R.DescribeLogDirsResponse(throttle_time=NO_TIME, error_code=Error.none, results=(result,))


def _topic(held: tuple[str, list[Partition]]) -> Any:
    name, partitions = held
    return R.DescribeLogDirsTopic(
        name=name,
        partitions=tuple(
            R.DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.size,
                offset_lag=max(partition.high_watermark - partition.log.end_offset, 0),
                is_future_key=False,
            )
            for partition in partitions
        ),
    )
