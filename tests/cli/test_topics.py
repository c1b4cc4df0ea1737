"""Topics, produce and consume from the command line against a real broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_classic.testing.cluster import LocalCluster
from tests.cli.command import CommandLine


@pytest.fixture
def cli(kafka_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, kafka_cluster.bootstrap)


def test_a_topic_lives_from_create_to_delete(cli: CommandLine) -> None:
    assert "with 2 partitions" in cli("topics", "create", "life", "--partitions", "2", "--config", "retention.ms=60000")
    assert "life" in cli("topics", "list")
    listed = {row["topic"]: row for row in json.loads(cli("topics", "list", "--json"))}
    assert listed["life"] == {"topic": "life", "partitions": 2, "replicas": 1, "offline": 0}

    told = json.loads(cli("topics", "describe", "life", "--json"))
    assert told["configs"] == {"retention.ms": "60000"}
    assert [row["partition"] for row in told["partitions"]] == [0, 1]
    assert told["partitions"][0] | {"partition": 0} == {
        "partition": 0,
        "leader": 0,
        "leader_epoch": told["partitions"][0]["leader_epoch"],
        "replicas": [0],
        "isr": [0],
        "offline": [],
        "adding": [],
        "removing": [],
        "start": 0,
        "end": 0,
    }

    cli("topics", "alter", "life", "--partitions", "3", "--config", "segment.bytes=1048576")
    cli("topics", "alter", "life", "--delete-config", "retention.ms")
    told = json.loads(cli("topics", "describe", "life", "--json"))
    assert told["configs"] == {"segment.bytes": "1048576"}
    assert len(told["partitions"]) == 3
    assert "segment.bytes=1048576" in cli("topics", "describe", "life")

    assert "--yes" in cli("topics", "delete", "life", code=1)
    assert cli("topics", "delete", "life", "--yes") == "deleted topic life\n"
    assert "life" not in [row["topic"] for row in json.loads(cli("topics", "list", "--json"))]


def test_a_description_is_laid_out_as_kafkas_own(cli: CommandLine) -> None:
    cli("topics", "create", "laid", "--partitions", "2", "--config", "retention.ms=60000")
    cli("produce", "laid", "--partition", "1", stdin=b"a\nb\n")
    heading, *partitions = cli("topics", "describe", "laid").splitlines()
    told = dict(field.split(": ", 1) for field in heading.split("\t"))
    assert len(told.pop("TopicId")) == 22
    assert told == {
        "Topic": "laid",
        "PartitionCount": "2",
        "ReplicationFactor": "1",
        "Configs": "retention.ms=60000",
    }
    assert partitions == [f"\tTopic: laid\tPartition: {index}\tLeader: 0\tReplicas: 0\tIsr: 0" for index in range(2)]
    assert cli("topics", "describe", "laid", "--offsets").splitlines()[2].endswith("\tStartOffset: 0\tEndOffset: 2")
    assert "Topic: laid\t" in cli("topics", "describe")
    assert cli("topics", "describe", "--under-replicated", "--unavailable") == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topics", "describe", "nowhere"], "no topic 'nowhere'"),
        (["topics", "delete", "nowhere", "--yes"], "nowhere"),
        (["topics", "alter", "nowhere", "--config", "retention.ms=1"], "nowhere"),
        (["topics", "create", "bad/name"], "bad/name"),
        (["topics", "create", "x", "--config", "retention.m=1"], "retention.ms"),
        (["topics", "create", "x", "--replication-factor", "5"], "replication"),
        (["topics", "alter", "x"], "--partitions"),
        (["consume", "nowhere"], "no topic 'nowhere'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_the_cluster_refuses_is_one_line(cli: CommandLine, arguments: list[str], said: str) -> None:
    line = cli(*arguments, code=1)
    assert line.startswith("error: ")
    assert said in line
    assert line.count("\n") == 1


def test_lines_with_keys_and_headers_come_back_as_they_were(cli: CommandLine) -> None:
    cli("topics", "create", "round", "--partitions", "1")
    out = cli("produce", "round", "--key-separator", ":", "--header", "a=1", stdin=b"k:v\nk2:v:2\n")
    assert out.startswith("2 acknowledged in ")
    out = cli("consume", "round", "--from", "earliest", "--count", "2", "--format", "%t/%p/%o %k=%v [%h]")
    assert out.splitlines() == ["round/0/0 k=v [a=1]", "round/0/1 k2=v:2 [a=1]"]
    lines = cli("consume", "round", "--from", "1", "--count", "1", "--json").splitlines()
    told = json.loads(lines[0])
    assert (told["offset"], told["key"], told["value"], told["headers"]) == (1, "k2", "v:2", [["a", "1"]])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_goes_there_and_back(cli: CommandLine, codec: str) -> None:
    topic = f"codec-{codec}"
    lines = b"".join(b"line %d of some text\n" % i for i in range(200))
    assert "200 acknowledged" in cli("produce", topic, "--compression", codec, "--batch", "50", stdin=lines)
    assert cli("consume", topic, "--from", "earliest", "--count", "200").encode() == lines


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks_are_told_as_they_are(cli: CommandLine, acks: str) -> None:
    out = cli("produce", f"acks-{acks}", "--random", "10", "--size", "20", "--acks", acks)
    assert out.startswith("10 sent, acknowledged by nobody" if acks == "0" else "10 acknowledged")
    assert len(cli("consume", f"acks-{acks}", "--from", "earliest", "--count", "10").split()) == 10


def test_an_idempotent_producer_writes_each_line_once(cli: CommandLine) -> None:
    assert "3 acknowledged" in cli("produce", "once", "--idempotent", "--batch", "1", stdin=b"a\nb\nc\n")
    assert "--acks all" in cli("produce", "once", "--idempotent", "--acks", "1", code=1)
    assert cli("consume", "once", "--from", "earliest", "--count", "3").split() == ["a", "b", "c"]


def test_a_file_is_read_in_place_of_standard_input(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"one\ntwo")
    assert "2 acknowledged" in cli("produce", "filed", "--file", str(tmp_path / "lines"))
    assert cli("consume", "filed", "--from", "earliest", "--count", "2").split() == ["one", "two"]
    assert "no-such-file" in cli("produce", "filed", "--file", "no-such-file", code=1)


def test_a_partition_can_be_chosen_and_must_exist(cli: CommandLine) -> None:
    cli("topics", "create", "chosen", "--partitions", "3")
    cli("produce", "chosen", "--partition", "2", stdin=b"x\n")
    read = cli("consume", "chosen", "--partition", "2", "--from", "earliest", "--count", "1", "--format", "%p:%v")
    assert read == "2:x\n"
    assert "no partition 3" in cli("consume", "chosen", "--partition", "3", code=1)
    assert "no partition 7" in cli("produce", "chosen", "--partition", "7", stdin=b"x\n", code=1)


def test_consuming_ends_when_nothing_comes(cli: CommandLine) -> None:
    cli("topics", "create", "quiet")
    assert cli("consume", "quiet", "--from", "earliest", "--idle-timeout", "0.1") == ""


def test_a_time_finds_its_first_record_and_a_later_one_none(cli: CommandLine) -> None:
    cli("produce", "timed", stdin=b"a\nb\n")
    assert cli("consume", "timed", "--from", "2020-01-01", "--count", "2").split() == ["a", "b"]
    assert cli("consume", "timed", "--from", "2999-01-01T00:00:00Z", "--idle-timeout", "0.1") == ""


def test_offsets_of_a_classic_topic_are_byte_positions(cli: CommandLine, kafka_cluster: LocalCluster) -> None:
    cli("topics", "create", "paper", "--classic")
    cli("produce", "paper", "--batch", "1", stdin=b"one\nthree\n")
    read = cli("consume", "paper", "--from", "earliest", "--count", "2", "--format", "%o %v").splitlines()
    (first, one), (second, three) = (line.split() for line in read)
    assert (first, one, three) == ("0", "one", "three")
    segment = kafka_cluster.brokers[0].data_dir / "paper-0" / "00000000000000000000.log"
    batches = [json.loads(line) for line in cli("log", "dump", str(segment), "--json").splitlines()]
    assert [batch["position"] for batch in batches] == [int(first), int(second)] == [0, batches[0]["bytes"]]


def test_dumping_and_verifying_a_live_brokers_files(cli: CommandLine, kafka_cluster: LocalCluster) -> None:
    cli("produce", "dumped", "--key-separator", ":", stdin=b"k:v\n")
    folder = str(kafka_cluster.brokers[0].data_dir / "dumped-0")
    assert "'k' -> 'v'" in cli("log", "dump", folder, "--records")
    assert "0 with faults" in cli("log", "verify", folder)


def test_completion_offers_the_clusters_topics(cli: CommandLine, kafka_cluster: LocalCluster) -> None:
    cli("topics", "create", "completed-one")
    from kafka_classic.cli.complete import topic_names

    class Context:
        params = {"bootstrap": kafka_cluster.bootstrap}  # noqa: RUF012

    assert topic_names(Context(), "completed-") == ["completed-one"]  # type: ignore[arg-type]
