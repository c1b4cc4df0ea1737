"""DescribeLogDirs: how much of the disk each partition takes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import kio.schema.describe_log_dirs.v5.response as response
from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.wire.errors import Error

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

R: Any = response


def describe_log_dirs(broker: Broker, connection: Connection, request: DescribeLogDirsRequest) -> Any:
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {t.topic: set(t.partitions) for t in request.topics}
    topics: dict[str, list[Any]] = {}
    for partition in broker.hosted:
        if wanted is None or partition.index in wanted.get(partition.topic, ()):
            topics.setdefault(partition.topic, []).append(
                R.DescribeLogDirsPartition(
                    partition_index=partition.index,
                    partition_size=partition.log.size,
                    offset_lag=0,
                    is_future_key=False,
                )
            )
    disk = shutil.disk_usage(broker.directory.path)
    result = R.DescribeLogDirsResult(
        error_code=Error.none,
        log_dir=str(broker.directory.path.resolve()),
        topics=tuple(R.DescribeLogDirsTopic(name=n, partitions=tuple(rows)) for n, rows in sorted(topics.items())),
        total_bytes=disk.total,
        usable_bytes=disk.free,
    )
    return R.DescribeLogDirsResponse(throttle_time=NO_TIME, error_code=Error.none, results=(result,))
