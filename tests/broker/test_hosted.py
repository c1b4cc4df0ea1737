"""The replicas that a broker holds, by what the controller says and what stands on its disk."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from kafka_classic.broker.hosted import HIGH_WATERMARKS, HostedPartitions
from kafka_classic.log.directory import LogDir
from kafka_classic.replication.partition import Partition
from kafka_classic.replication.replica import Leadership
from tests.broker.raw import batch
from tests.broker.test_review import hosting

FOLLOWS = Leadership(1, 4, (0, 1), (0, 1), 0)
LEADS = Leadership(0, 4, (0, 1), (0, 1), 0)


def followed(hosted: HostedPartitions, index: int, told: Leadership = FOLLOWS) -> Partition:
    hosted.take("t", UUID(int=7), index, told, 0.0)
    partition, _ = hosted.find("t", index)
    assert partition is not None
    return partition


def test_high_watermarks_outlive_the_broker_also_of_what_it_has_not_opened_again(tmp_path: Path) -> None:
    directory = LogDir(tmp_path, 0, "cluster")
    directory.load()
    hosted = hosting(directory)
    for index, mark in enumerate((2, 1)):
        partition = followed(hosted, index)
        for _ in range(3):
            partition.log.append(bytearray(batch(b"x")), 4)
        partition.followed(mark)
    hosted.save_marks_job()()
    directory.close()
    for _ in range(2):  # the second time of what the first did not open
        directory = LogDir(tmp_path, 0, "cluster")
        directory.load()
        hosted = hosting(directory)
        hosted.load_marks()
        assert followed(hosted, 0).high_watermark == 2
        hosted.save_marks_job()()
        directory.close()
    directory = LogDir(tmp_path, 0, "cluster")
    directory.load()
    hosted = hosting(directory)
    hosted.load_marks()
    leader = followed(hosted, 1, LEADS)
    assert (leader.high_watermark, leader.log.end_offset, leader.fresh) == (1, 3, True)
    directory.close()


def test_a_high_watermark_is_never_beyond_what_a_crash_has_left_of_the_log(tmp_path: Path) -> None:
    (tmp_path / HIGH_WATERMARKS).write_text("0\n1\nt 0 9\n")
    (tmp_path / "t-0").mkdir()
    directory = LogDir(tmp_path, 0, "cluster")
    directory.load()
    hosted = hosting(directory)
    hosted.load_marks()
    assert followed(hosted, 0).high_watermark == 0
    directory.close()


def test_damaged_marks_are_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / HIGH_WATERMARKS).write_text("no marks")
    directory = LogDir(tmp_path, 0, "cluster")
    directory.load()
    hosted = hosting(directory)
    hosted.load_marks()
    assert "going on without it" in caplog.text
    assert followed(hosted, 0).high_watermark == 0
    directory.close()
