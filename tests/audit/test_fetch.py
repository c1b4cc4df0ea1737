"""One range of offsets from a real broker: all of it, whatever happens to the broker; and what is gone is named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka_classic.audit.source.fetch import DataLost, Loss, fail, fetch_range
from kafka_classic.audit.source.plan import Range
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.fetch_packed import FetchLimits
from kafka_classic.client.offsets import delete_records
from kafka_classic.testing.cluster import LocalCluster
from tests.audit.topics import fill, new_topic, numbers

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = FetchLimits(partition_max_bytes=2000)


def offsets(cluster: Cluster, wanted: Range, on_loss: Callable[[Loss], None] = fail) -> list[int]:
    chunks = fetch_range(cluster, wanted, limits=SMALL, on_loss=on_loss)
    return [record.offset for chunk in chunks for record in chunk.records() if record.offset < wanted.end]


def test_a_range_that_begins_and_ends_inside_of_batches_comes_whole(cluster: Cluster, kafka_bootstrap: str) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 1000))
    assert offsets(cluster, Range(topic, 0, 17, 983)) == list(range(17, 983))
    assert offsets(cluster, Range(topic, 0, 17, 17)) == []


def test_what_retention_has_deleted_is_told_and_the_rest_is_read(cluster: Cluster, kafka_bootstrap: str) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 100))
    delete_records(cluster, {(topic, 0): 60})
    with pytest.raises(DataLost, match=rf"offsets 10 to 60 of {topic}-0 are lost: the log begins at 60 now"):
        offsets(cluster, Range(topic, 0, 10, 90))
    losses: list[Loss] = []
    assert offsets(cluster, Range(topic, 0, 10, 90), losses.append) == list(range(60, 90))
    assert [loss.lost for loss in losses] == [Range(topic, 0, 10, 60)]


def test_a_range_of_which_nothing_is_left_ends(cluster: Cluster, kafka_bootstrap: str) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 100))
    delete_records(cluster, {(topic, 0): 100})
    losses: list[Loss] = []
    assert offsets(cluster, Range(topic, 0, 10, 90), losses.append) == []
    assert [loss.lost for loss in losses] == [Range(topic, 0, 10, 90)]


def test_records_that_the_log_no_longer_has_at_its_end_are_a_loss(cluster: Cluster, kafka_bootstrap: str) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 10))
    with pytest.raises(DataLost, match=rf"offsets 10 to 30 of {topic}-0 are lost: the log ends at 10"):
        offsets(cluster, Range(topic, 0, 5, 30))
    with pytest.raises(DataLost, match=rf"offsets 20 to 30 of {topic}-0 are lost: the log ends before them"):
        offsets(cluster, Range(topic, 0, 20, 30))


def test_a_broker_that_is_killed_under_a_reader_costs_it_nothing_but_time(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as servers, Cluster(servers.bootstrap) as cluster:
        topic = new_topic(cluster)
        fill(servers.bootstrap, topic, 0, numbers(0, 2000))
        found: list[int] = []
        for chunk in fetch_range(cluster, Range(topic, 0, 0, 2000), limits=SMALL):
            found += [record.offset for record in chunk.records()]
            if len(found) < 200:
                servers.brokers[0].kill()
                servers.brokers[0].start()
                servers.brokers[0].wait_ready(60)
        assert found == list(range(2000))
