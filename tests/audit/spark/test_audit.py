"""The audit on Spark over real brokers: what is done to their files and processes, it finds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.parquet
import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_classic import Producer
from kafka_classic.audit import pipeline
from kafka_classic.audit.findings import Cell, Verdict
from kafka_classic.audit.judge import LOG, PRODUCER
from kafka_classic.audit.load import Load
from kafka_classic.audit.pipeline import WAREHOUSE, Audit, Question, audit
from kafka_classic.audit.summary import details, moment, sentence
from kafka_classic.audit.warehouse_tier import committed_files
from kafka_classic.audit.watching import Watch
from kafka_classic.cli.main import run
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.monitoring import TOPIC
from kafka_classic.client.offsets import delete_records
from kafka_classic.client.simple import beginning, consume
from kafka_classic.client.topics import NewTopic, create_topics, delete_topics
from kafka_classic.consumer import ConsumerConnector, ConsumerTimeout, Message, MessageStream
from kafka_classic.records.batch import iter_batches
from kafka_classic.testing.cluster import LocalCluster
from tests.audit.worlds import moved_to, with_altered_record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60_000
# Not long ago: retention must not be faster than a slow machine.
BEGIN = int(time.time() * 1000) // MINUTE * MINUTE - 20 * MINUTE
SETTINGS = {"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "60000"}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("audited"), brokers=3, settings=SETTINGS) as cluster:
        yield cluster


def create(local: LocalCluster, name: str, partitions: int = 2, replicas: int = 1) -> None:
    with Cluster(local.bootstrap) as client:
        create_topics(client, [NewTopic(name, partitions, replicas)])


def fill(local: LocalCluster, topic: str, windows: int = 3, each: int = 60, acks: str = "all") -> None:
    """A producer with batches of ten messages in each window of each partition: each flush closes one."""
    with Producer(local.bootstrap, audit=True, client_id="filler", acks=acks, linger_ms=60_000) as producer:
        for window in range(windows):
            for number in range(each):
                stamp = BEGIN + window * MINUTE + number
                producer.send(topic, b"%d-%d" % (window, number), partition=number % 2, timestamp=stamp)
                if number % 20 == 19:
                    producer.flush()


def ask(spark: SparkSession, local: LocalCluster, *topics: str, **more: object) -> Audit:
    return audit(spark, Question(local.bootstrap, topics, settle_ms=0, **more))  # type: ignore[arg-type]


def at(found: Audit, topic: str, window: int) -> Cell:
    (cell,) = [cell for cell in found.cells if (cell.topic, cell.window) == (topic, BEGIN + window * MINUTE)]
    return cell


def messages_of(stream: MessageStream) -> Iterator[Message]:
    """What comes until nothing more does."""
    try:
        yield from stream
    except ConsumerTimeout:
        return


def edit(local: LocalCluster, topic: str, partition: int, change: object) -> None:
    """Change the batches of a partition in its leader's file, while the broker is down."""
    with Cluster(local.bootstrap) as client:
        leader = client.leader(topic, partition)
    broker = local.brokers[leader]
    broker.stop()
    folder = broker.data_dir / f"{topic}-{partition}"
    segment = max(folder.glob("*.log"))
    data = segment.read_bytes()
    batches = [data[pos : pos + header.size] for pos, header in iter_batches(data)]
    segment.write_bytes(b"".join(change(batches)))  # type: ignore[operator]
    for index in (*folder.glob("*.index"), *folder.glob("*.timeindex"), *folder.glob("*.snapshot")):
        index.unlink()
    (broker.data_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    broker.start()
    broker.wait_ready(60)


def test_a_rolling_restart_under_producers_and_a_group_is_complete(spark: SparkSession, local: LocalCluster) -> None:
    create(local, "rolling", replicas=3)
    settings = {"auto_offset_reset": "smallest", "consumer_timeout_ms": 5_000}
    with (
        Producer(local.bootstrap, audit=True, audit_window_ms=1000) as producer,
        Producer(local.bootstrap, audit=True, audit_window_ms=1000, compression_type="lz4") as other,
    ):
        for broker in local.brokers:
            for number in range(300):
                producer.send("rolling", b"a%d" % number, key=b"k%d" % number)
                other.send("rolling", b"b%d" % number)
            broker.restart()
            broker.wait_ready(60)
        producer.flush()
        other.flush()
    with ConsumerConnector(local.zookeeper, "readers", settings, audit=True) as connector:
        [stream] = connector.create_message_streams({"rolling": 1})["rolling"]
        read = list(messages_of(stream))
    found = ask(spark, local, "rolling")
    assert found.verdict is Verdict.COMPLETE, "\n".join(details(found.cells))
    assert found.exit_code == 0
    assert sum(cell.published for cell in found.cells) == len(read) == 1800
    assert {"producer", "log", "group readers"} == {tier for cell in found.cells for tier in cell.tiers}
    assert sum(cell.tiers["group readers"].count for cell in found.cells) == 1800
    assert all(cell.tiers[LOG].compared for cell in found.cells if cell.published)


def test_what_is_done_to_a_brokers_files_is_found_with_count_and_window(
    spark: SparkSession, local: LocalCluster
) -> None:
    topics = ("dropped", "doubled", "changed", "whole", "cut")
    for topic in topics:
        create(local, topic)
        fill(local, topic)

    def drop(batches: list[bytes]) -> list[bytes]:
        return batches[:4] + batches[5:]

    def double(batches: list[bytes]) -> list[bytes]:
        return [*batches, moved_to(batches[0], 90)]

    def change(batches: list[bytes]) -> list[bytes]:
        import random

        return [*batches[:8], with_altered_record(batches[8], random.Random(1))]

    edit(local, "dropped", 0, drop)
    edit(local, "doubled", 1, double)
    edit(local, "changed", 0, change)
    with Cluster(local.bootstrap) as client:
        delete_records(client, {("cut", 0): 15})

    found = ask(spark, local, *topics)

    damage = {
        (cell.topic, cell.window, tier): (told.missing, told.doubled, told.altered, told.disordered)
        for cell in found.cells
        for tier, told in cell.tiers.items()
        if told.verdict is Verdict.DAMAGED
    }
    assert damage == {
        ("dropped", BEGIN + MINUTE, LOG): (10, 0, 0, 0),
        ("doubled", BEGIN, LOG): (0, 10, 0, 0),
        ("changed", BEGIN + 2 * MINUTE, LOG): (0, 0, 1, 0),
    }
    (finding,) = at(found, "dropped", 1).tiers[LOG].findings
    assert (finding.partition, finding.first, finding.next, finding.low, finding.high) == (0, 40, 50, 40, 49)
    cut = at(found, "cut", 0).tiers[LOG]
    assert (cut.verdict, cut.deleted, cut.missing) == (Verdict.UNKNOWN, 15, 0)
    assert {cell.verdict for cell in found.cells if cell.topic == "whole"} == {Verdict.COMPLETE}
    assert found.exit_code == 1
    assert ask(spark, local, "cut").exit_code == 2


def test_what_a_broker_compressed_anew_is_not_altered_and_what_was_altered_then_is(
    spark: SparkSession, local: LocalCluster
) -> None:
    with Cluster(local.bootstrap) as client:
        create_topics(client, [NewTopic("squeezed", 2, 1, {"compression.type": "gzip"})])
    fill(local, "squeezed")
    found = ask(spark, local, "squeezed")
    assert found.verdict is Verdict.COMPLETE, "\n".join(details(found.cells))
    assert all(cell.tiers[LOG].compared for cell in found.cells)

    def change(batches: list[bytes]) -> list[bytes]:
        import random

        return [*batches[:8], with_altered_record(batches[8], random.Random(1))]

    edit(local, "squeezed", 0, change)
    found = ask(spark, local, "squeezed")
    assert [at(found, "squeezed", window).tiers[LOG].altered for window in range(3)] == [0, 0, 1]


def test_a_topic_that_was_deleted_is_named_by_who_asks_for_all(spark: SparkSession, local: LocalCluster) -> None:
    for topic in ("abandoned", "kept"):
        create(local, topic)
        fill(local, topic, windows=1)
    with Cluster(local.bootstrap) as client:
        delete_topics(client, ["abandoned"])
    found = ask(spark, local, begin=BEGIN)
    assert found.gone == ("abandoned",)
    assert "kept" in found.topics
    assert sentence(found).endswith("; not audited, for they are no more: abandoned")
    assert ask(spark, local, begin=BEGIN + 30 * MINUTE).gone == ()
    assert ask(spark, local, "kept").gone == ()


def test_what_is_deleted_while_the_audit_counts_is_not_missing(
    spark: SparkSession, local: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(local, "ageing")
    fill(local, "ageing")
    plan = pipeline._slices

    def plan_and_delete(bounds: Any, tasks: int) -> Any:
        with Cluster(local.bootstrap) as client:
            delete_records(client, {("ageing", 1): 40})
        return plan(bounds, tasks)

    monkeypatch.setattr(pipeline, "_slices", plan_and_delete)
    told = [cell.tiers[LOG] for cell in ask(spark, local, "ageing").cells]
    assert [(one.verdict, one.deleted, one.missing) for one in told] == [
        *((Verdict.UNKNOWN, 30, 0), (Verdict.UNKNOWN, 10, 0), (Verdict.COMPLETE, 0, 0))
    ]


def test_producers_with_windows_of_other_lengths_do_not_disturb_each_other(
    spark: SparkSession, local: LocalCluster
) -> None:
    for topic in ("minutes", "seconds"):
        create(local, topic)
    for topic, window_ms in (("minutes", MINUTE), ("minutes", 2 * MINUTE), ("seconds", 1000)):
        with Producer(local.bootstrap, audit=True, audit_window_ms=window_ms) as producer:
            for number in range(60):
                producer.send(topic, b"x", timestamp=BEGIN + number * 3000)
    found = ask(spark, local, "minutes", "seconds")
    assert found.verdict is Verdict.COMPLETE, "\n".join(details(found.cells))
    assert sum(cell.tiers[LOG].count for cell in found.cells) == 180


def test_what_acks_1_acknowledged_and_a_dead_leader_lost_is_missing(spark: SparkSession, local: LocalCluster) -> None:
    with Cluster(local.bootstrap) as client:
        create_topics(client, [NewTopic("risky", assignment={0: (1, 2)})])
        leader, follower = local.brokers[1], local.brokers[2]
        with Producer(local.bootstrap, audit=True, acks=1, client_id="risky") as producer:
            for number in range(60):
                producer.send("risky", b"safe %d" % number, timestamp=BEGIN + number // 20 * MINUTE)
            producer.flush()
            wait_for_end(client, "risky", 60)
            follower.pause()
            # The fetch that the follower had sent before may be answered with the first of these, not with the rest.
            producer.send("risky", b"perhaps", timestamp=BEGIN + MINUTE).result(30)
            for number in range(30):
                producer.send("risky", b"lost %d" % number, timestamp=BEGIN + MINUTE)
            producer.flush(30)
            leader.kill()
            follower.resume()
            for number in range(20):
                producer.send("risky", b"after %d" % number, timestamp=BEGIN + 2 * MINUTE)
            producer.flush(60)
        leader.start()
        leader.wait_ready(60)
    found = ask(spark, local, "risky")
    with Cluster(local.bootstrap) as client:
        kept = Counter(one.record.timestamp for one in consume(client, beginning(client, ["risky"]), idle=2))
    lost = 51 - kept[BEGIN + MINUTE]
    assert lost in (30, 31)
    assert [at(found, "risky", window).tiers[LOG].missing for window in range(3)] == [0, lost, 0]
    assert [at(found, "risky", window).published for window in range(3)] == [20, 51, 40]
    assert at(found, "risky", 2).verdict is Verdict.COMPLETE
    assert found.exit_code == 1


def wait_for_end(client: Cluster, topic: str, end: int) -> None:
    """Wait until the followers have everything: the high watermark is what consumers see."""
    assert sum(1 for _ in consume(client, beginning(client, [topic]), count=end, idle=30)) == end


def load(spark: SparkSession, local: LocalCluster, folder: Path, *topics: str) -> None:
    with Load.start(spark, local.bootstrap, topics, folder, once=True) as loading:
        for _ in loading.batches():
            pass


def test_what_is_done_to_the_warehouse_is_found_there(spark: SparkSession, local: LocalCluster, tmp_path: Path) -> None:
    topics = ("stored", "vanished", "rewritten")
    for topic in topics:
        create(local, topic)
        fill(local, topic)
    folder = tmp_path / "warehouse"
    load(spark, local, folder, *topics)
    found = ask(spark, local, *topics, warehouse=folder)
    assert found.verdict is Verdict.COMPLETE, "\n".join(details(found.cells))
    assert all(cell.tiers[WAREHOUSE].compared for cell in found.cells)

    gone = max(committed_files(folder), key=lambda path: "topic=vanished" in str(path))
    lost = Counter(time_of(row) // MINUTE * MINUTE for row in rows_of(gone))
    gone.unlink()
    changed = max(committed_files(folder), key=lambda path: "topic=rewritten" in str(path))
    rows = rows_of(changed)
    twice = rows[-1]
    rows[0]["value"] = b"forged"
    table = pyarrow.Table.from_pylist([*rows, twice], schema=pyarrow.parquet.read_schema(changed))
    pyarrow.parquet.write_table(table, changed)
    (changed.parent / f".{changed.name}.crc").unlink()  # Spark's own checksum of the file
    fill(local, "stored", windows=4)  # and not loaded

    found = ask(spark, local, *topics, warehouse=folder)

    damage = {
        (cell.topic, cell.window): (told.missing, told.doubled, told.altered)
        for cell in found.cells
        for tier, told in cell.tiers.items()
        if told.verdict is Verdict.DAMAGED
        if tier == WAREHOUSE
    }
    forged, doubled = (time_of(row) // MINUTE * MINUTE for row in (rows[0], twice))
    assert forged != doubled
    assert damage == {
        **{("vanished", window): (count, 0, 0) for window, count in lost.items()},
        ("rewritten", forged): (0, 0, 1),
        ("rewritten", doubled): (0, 1, 0),
    }
    stored = [cell for cell in found.cells if cell.topic == "stored"]
    assert Counter(cell.verdict for cell in stored) == {Verdict.COMPLETE: 3, Verdict.UNKNOWN: 4}
    assert {cell.tiers[WAREHOUSE].why for cell in stored} == {"", "not here yet"}


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pyarrow.parquet.ParquetFile(path).read().to_pylist()
    return rows


def time_of(row: dict[str, Any]) -> int:
    stamp: datetime = row["timestamp"]
    return round(stamp.replace(tzinfo=UTC).timestamp() * 1000)


KILLED = """
import sys, time
from kafka_classic import Producer
producer = Producer(sys.argv[1], audit=True, client_id="killed")
for number in range(100):
    producer.send("interrupted", b"x", timestamp=int(sys.argv[2]) + number // 50 * 60000)
producer.flush()
print("sent", flush=True)
time.sleep(600)
"""


def test_a_producer_that_was_killed_in_a_window_leaves_it_unknown(spark: SparkSession, local: LocalCluster) -> None:
    create(local, "interrupted")
    fill(local, "interrupted")
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", KILLED, local.bootstrap, str(BEGIN)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "sent\n"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    found = ask(spark, local, "interrupted")
    by_client = {name: {cell.verdict for cell in found.cells if cell.client == name} for name in ("killed", "filler")}
    assert by_client == {"killed": {Verdict.UNKNOWN}, "filler": {Verdict.COMPLETE}}
    killed = [cell for cell in found.cells if cell.client == "killed"]
    assert [cell.tiers[LOG].count for cell in killed] == [50, 50]
    assert found.exit_code == 2


def test_clients_that_are_not_ours_are_counted_in_the_log(spark: SparkSession, local: LocalCluster) -> None:
    from kafka import KafkaProducer

    create(local, "foreign")
    producer = KafkaProducer(bootstrap_servers=local.bootstrap, enable_idempotence=False)
    for number in range(40):
        producer.send("foreign", b"x", partition=number % 2)
    producer.close()
    found = ask(spark, local, "foreign")
    assert sum(cell.tiers[LOG].count for cell in found.cells) == 40
    assert {cell.verdict for cell in found.cells} == {Verdict.COUNTED}
    assert {PRODUCER in cell.tiers for cell in found.cells} == {False}
    assert found.exit_code == 2  # nobody says what was published: that is not complete


def read_with_librdkafka(local: LocalCluster, group: str, topic: str, count: int) -> dict[int, int]:
    """A member that reads so many messages, commits after each and leaves; returns the offsets by partition."""
    consumer = Consumer(
        {"bootstrap.servers": local.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        | {"enable.auto.commit": False}
    )
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 120
        while count:
            assert time.monotonic() < deadline
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                consumer.commit(message=message, asynchronous=False)
                count -= 1
        committed = consumer.committed([TopicPartition(topic, partition) for partition in range(2)], timeout=30)
        return {one.partition: max(0, one.offset) for one in committed}
    finally:
        consumer.close()


def test_a_group_of_another_client_is_known_by_what_it_committed(
    spark: SparkSession, local: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    create(local, "borrowed")
    create(local, "unborrowed")
    fill(local, "borrowed")
    fill(local, "unborrowed")
    assert read_with_librdkafka(local, "whole", "borrowed", 180) == {0: 90, 1: 90}
    offsets = read_with_librdkafka(local, "half", "borrowed", 100)

    found = ask(spark, local, "borrowed", "unborrowed", groups=("whole",))

    assert found.tiers == [LOG, "group whole (committed)"]
    assert found.verdict is Verdict.COMPLETE, "\n".join(details(found.cells))
    told = [at(found, "borrowed", window).tiers["group whole (committed)"] for window in range(3)]
    assert [(one.verdict, one.count, one.expected) for one in told] == [(Verdict.PASSED, 60, 60)] * 3
    assert sentence(found).endswith("; passed, as far as offsets tell, by group whole (committed)")
    # A group has no tier at a topic that it does not read.
    assert set(at(found, "unborrowed", 0).tiers) == {PRODUCER, LOG}

    found = ask(spark, local, "borrowed", groups=("whole", "half"))
    told = [at(found, "borrowed", window).tiers["group half (committed)"] for window in range(3)]
    behind = [sum(min(30, max(0, offset - 30 * window)) for offset in offsets.values()) for window in range(3)]
    assert sum(behind) == 100
    assert [one.count for one in told] == behind
    assert [one.verdict is Verdict.PASSED for one in told] == [count == 60 for count in behind]
    assert found.exit_code == 2

    options = ["--bootstrap", local.bootstrap, "--topics", "borrowed"]
    assert run(["audit", "run", *options, "--groups", "half", "--json"]) == 2
    assert "not here yet: the group has committed offset" in capsys.readouterr().out
    assert run(["audit", "run", *options, "--groups", "hlaf"]) == 2
    assert "group 'hlaf' has committed no offset of 'borrowed' to the brokers" in capsys.readouterr().err


def test_the_commands_say_it_in_words_as_json_and_as_a_page(
    spark: SparkSession, local: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(local, "told")
    fill(local, "told", acks="1")
    options = ["--bootstrap", local.bootstrap, "--topics", "told"]
    assert run(["audit", "run", *options]) == 0
    text = capsys.readouterr().out
    assert "complete: 180 published messages in 3 windows" in text
    assert "bytes beyond key and value" in text
    assert run(["audit", "run", *options, "--json", "--from", moment(BEGIN + MINUTE)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], len(told["cells"])) == ("complete", 2)
    page = tmp_path / "audit.html"
    assert run(["audit", "report", *options, "--html", str(page), "--deep"]) == 0
    assert "told" in page.read_text()
    assert run(["audit", "watch", *options, "--from", "1d", "--count", "2", "--every", "1"]) == 0
    assert run(["audit", "run", *options, "--from", "tomorrow"]) == 2
    assert "neither an ISO time nor how long ago" in capsys.readouterr().err


def test_watching_counts_what_is_new_and_keeps_what_was_complete(spark: SparkSession, local: LocalCluster) -> None:
    create(local, "watched")
    fill(local, "watched", windows=2)
    watch = Watch(spark, lambda: Question(local.bootstrap, ("watched",), settle_ms=0))
    assert len(watch.look().cells) == 2
    fill(local, "watched", windows=4)
    found = watch.look()
    assert found.verdict is Verdict.COMPLETE
    assert {cell.window for cell in found.cells} == {BEGIN + number * MINUTE for number in range(4)}
    # What a second producer had in windows that were complete before is told as well.
    assert Counter(cell.producer for cell in found.cells).total() == 6
    assert sum(cell.published for cell in found.cells) == 2 * 60 + 4 * 60
    events = spark.read.format("kafka_classic").option("kafka.bootstrap.servers", local.bootstrap)
    told = [json.loads(row.value) for row in events.option("subscribe", TOPIC).load().select("value").collect()]
    assert sum(event["count"] for event in told if event["topic"] == "watched" and event["state"] == "closed") == 360
    again = watch.look()
    assert (again.cells, again.question) == (found.cells, found.question)


def test_monitoring_events_are_json_that_people_can_read(local: LocalCluster) -> None:
    create(local, "readable")
    fill(local, "readable", windows=1)
    with Cluster(local.bootstrap) as client:
        events = [
            json.loads(found.record.value or b"") for found in consume(client, beginning(client, [TOPIC]), idle=2)
        ]
        assert len(client.topic(TOPIC).partitions[0].replicas) == 3
    states = [(event["state"], event["count"]) for event in events if event["topic"] == "readable"]
    assert states == [("open", 0), ("closed", 60)]
