"""Groups from the command line, against a real broker and a real ZooKeeper."""

from __future__ import annotations

import json
import os
import signal
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from kafka_classic import Producer
from kafka_classic.cli.group_view import Group, Kind, merged, state_of
from kafka_classic.cli.groups import Row, lags
from kafka_classic.cli.position import AtOffset, Earliest, FromTime, Latest, Position
from kafka_classic.cli.reset import Move, ShiftBy, duration_ms, plan
from kafka_classic.consumer import ConsumerConnector
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.zk.consumers import GroupRegistry
from kafka_classic.zk.offsets import OffsetRegistry
from kafka_classic.zk.session import Session
from tests.cli.command import CommandLine
from tests.zk.breaking import until


@pytest.fixture
def cli(kafka_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setenv("KAFKA_CLASSIC_ZOOKEEPER", kafka_cluster.zookeeper)
    return CommandLine(tmp_path, monkeypatch, kafka_cluster.bootstrap)


def lines(count: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(count))


def test_a_group_reads_on_from_where_it_was(cli: CommandLine) -> None:
    cli("topics", "create", "grouped-shared", "--partitions", "1")
    cli("produce", "grouped-shared", stdin=lines(10))
    first = cli("consume", "grouped-shared", "--group", "on", "--from", "earliest", "--count", "4")
    assert first == "0\n1\n2\n3\n"
    rest = cli("consume", "grouped-shared", "--group", "on", "--from", "earliest", "--count", "6", "--streams", "2")
    assert rest == "4\n5\n6\n7\n8\n9\n"


def test_a_group_ends_when_nothing_comes(cli: CommandLine) -> None:
    cli("topics", "create", "grouped-quiet", "--partitions", "2")
    cli("produce", "grouped-quiet", stdin=lines(3))
    told = cli(
        "consume",
        "grouped-quiet",
        "-g",
        "idle",
        "--from",
        "earliest",
        "--idle-timeout",
        "3",
        "--streams",
        "2",
        "--json",
    )
    assert sorted(json.loads(line)["value"] for line in told.splitlines()) == ["0", "1", "2"]


def test_a_termination_commits_and_leaves_as_an_interruption_does(
    cli: CommandLine, kafka_cluster: LocalCluster
) -> None:
    cli("topics", "create", "grouped-ended", "--partitions", "1")
    cli("produce", "grouped-ended", stdin=lines(10))

    def end() -> None:
        with Session(kafka_cluster.zookeeper) as session:
            registry = GroupRegistry(session, "ended")
            until(session, lambda: registry.owners())
            until(session, lambda: OffsetRegistry(session).fetch("ended", [("grouped-ended", 0)]))
            os.kill(os.getpid(), signal.SIGTERM)

    ending = threading.Thread(target=end)
    ending.start()
    told = cli("consume", "grouped-ended", "--group", "ended", "--from", "earliest")
    ending.join()
    described = json.loads(cli("groups", "describe", "ended", "--json"))
    assert described["kinds"][0]["members"] == []
    assert described["partitions"][0]["offset"] == len(told.splitlines())


def test_a_group_is_listed_and_described_with_its_lag(cli: CommandLine, kafka_cluster: LocalCluster) -> None:
    cli("topics", "create", "grouped-lagging", "--partitions", "2")
    cli("produce", "grouped-lagging", "--partition", "0", stdin=lines(10))
    cli("consume", "grouped-lagging", "--group", "behind", "--from", "earliest", "--count", "4")
    told = json.loads(cli("groups", "describe", "behind", "--json"))
    rows = {row["partition"]: row for row in told["partitions"]}
    assert rows[0] == {
        "kind": "zookeeper",
        "topic": "grouped-lagging",
        "partition": 0,
        "offset": 4,
        "end": 10,
        "lag": 6,
        "owner": None,
    }
    assert told["kinds"] == [{"kind": "zookeeper", "state": "Empty", "members": []}]
    idle = {"group": "behind", "kind": "zookeeper", "state": "Empty", "members": 0, "partitions": 0}
    assert idle in json.loads(cli("groups", "list", "--json"))
    assert idle in json.loads(cli("groups", "list", "--kind", "zookeeper", "--json"))
    assert idle not in json.loads(cli("groups", "list", "--kind", "kafka", "--json"))
    assert "behind (zookeeper): Empty, 0 members, 2 partitions, lag 6; 2 owned by nobody" in cli(
        "groups", "describe", "behind"
    )

    with ConsumerConnector(kafka_cluster.zookeeper, "behind") as connector:
        connector.create_message_streams({"grouped-lagging": 1})
        owner = f"{connector.consumer_id}-0"
        while {row["owner"] for row in json.loads(cli("groups", "describe", "behind", "--json"))["partitions"]} != {
            owner
        }:
            pass
        assert json.loads(cli("groups", "describe", "behind", "--json"))["kinds"] == [
            {"kind": "zookeeper", "state": "Stable", "members": [connector.consumer_id]}
        ]
        for command in (
            ("reset-offsets", "behind", "--topic", "grouped-lagging", "--to-latest"),
            ("delete", "behind", "--yes"),
        ):
            assert "1 live member" in cli("groups", *command, code=1)
    assert "--yes" in cli("groups", "delete", "behind", code=1)
    cli("groups", "delete", "behind", "--yes")
    assert "there is no group behind" in cli("groups", "describe", "behind", code=1)


def test_offsets_are_reset_and_a_dry_run_changes_nothing(cli: CommandLine) -> None:
    cli("topics", "create", "grouped-again", "--partitions", "1")
    cli("produce", "grouped-again", stdin=lines(10))
    cli("consume", "grouped-again", "--group", "replay", "--from", "earliest", "--count", "10")
    reset = ("groups", "reset-offsets", "replay", "--topic", "grouped-again")
    told = json.loads(cli(*reset, "--shift-by", "-3", "--dry-run", "--json"))
    assert told["offsets"] == [{"topic": "grouped-again", "partition": 0, "old": 10, "new": 7}]
    assert json.loads(cli("groups", "describe", "replay", "--json"))["partitions"][0]["offset"] == 10
    cli(*reset, "--to-offset", "8")
    assert cli("consume", "grouped-again", "--group", "replay", "--count", "2") == "8\n9\n"
    cli(*reset, "--to-earliest")
    assert cli("consume", "grouped-again", "--group", "replay", "--count", "1") == "0\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("describe", "nobody"), "there is no group nobody"),
        (("reset-offsets", "nobody", "--topic", "nowhere", "--to-latest"), "nowhere"),
        (("reset-offsets", "nobody", "--topic", "grouped-known"), "was not said"),
        (("reset-offsets", "nobody", "--topic", "grouped-known", "--to-latest", "--to-earliest"), "said twice"),
        (("reset-offsets", "nobody", "--topic", "grouped-known", "--to-datetime", "soon"), "--to-datetime 'soon'"),
        (("reset-offsets", "nobody", "--topic", "grouped-known", "--by-duration", "2h"), "ISO duration"),
        (("reset-offsets", "nobody", "--to-latest"), "--all-topics"),
        (("reset-offsets", "nobody", "--all-topics", "--topic", "grouped-known", "--to-latest"), "one of both"),
        (("delete", "nobody", "--yes"), "there is no group nobody"),
        (("reset-offsets", "nobody", "--topic", "grouped-known", "--partition", "9", "--to-latest"), "no partition 9"),
    ],
)
def test_what_cannot_be_done_is_one_line_that_says_why(cli: CommandLine, arguments: tuple[str, ...], said: str) -> None:
    if "grouped-known" in arguments and "grouped-known" not in cli("topics", "list").split():
        cli("topics", "create", "grouped-known")
    assert said in cli("groups", *arguments, code=1)


@pytest.mark.parametrize("name", ["", "a/b", ".."])
def test_a_name_that_would_lie_among_other_groups_is_refused_and_nothing_is_written(
    cli: CommandLine, name: str
) -> None:
    if "grouped-named" not in cli("topics", "list").split():
        cli("topics", "create", "grouped-named", "--partitions", "1")
    cli("groups", "reset-offsets", "harmless", "--topic", "grouped-named", "--to-latest")
    before = cli("groups", "list", "--json")
    reset = ("groups", "reset-offsets", name, "--topic", "grouped-named", "--to-latest")
    assert "cannot be a group's name" in cli(*reset, code=1)
    for command in ("describe", name), ("delete", name, "--yes"):
        assert "there is no group" in cli("groups", *command, code=1)
    assert cli("groups", "list", "--json") == before
    assert "harmless" in before


@pytest.mark.parametrize(
    ("time", "new"), [("--to-datetime=2026-01-31T12:00:01Z", 2), ("--by-duration=PT30M", 4), ("--by-duration=PT0S", 6)]
)
def test_a_group_goes_on_from_a_time(cli: CommandLine, kafka_cluster: LocalCluster, time: str, new: int) -> None:
    if "grouped-timed" not in cli("topics", "list").split():
        cli("topics", "create", "grouped-timed", "--partitions", "1")
        noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
        moments = [noon + n * timedelta(milliseconds=500) for n in range(4)]
        moments += [datetime.now(UTC) - timedelta(minutes=10)] * 2
        with Producer(kafka_cluster.bootstrap) as producer:
            for moment in moments:
                producer.send("grouped-timed", b"x", timestamp=int(moment.timestamp() * 1000))
    reset = ("groups", "reset-offsets", "timed", "--topic", "grouped-timed", time, "--json")
    assert [move["new"] for move in json.loads(cli(*reset, "--dry-run"))["offsets"]] == [new]
    cli(*reset)
    assert json.loads(cli("groups", "describe", "timed", "--json"))["partitions"][0]["offset"] == new


@pytest.mark.parametrize("ago", ["--by-duration=P99999999999D", "--to-datetime=1969-12-31T23:59:59.999+00:00"])
def test_a_time_before_all_records_is_the_beginning(cli: CommandLine, ago: str) -> None:
    if "grouped-old" not in cli("topics", "list").split():
        cli("topics", "create", "grouped-old", "--partitions", "1")
        cli("produce", "grouped-old", stdin=lines(3))
    told = json.loads(cli("groups", "reset-offsets", "old", "--topic", "grouped-old", ago, "--dry-run", "--json"))
    assert [move["new"] for move in told["offsets"]] == [0]


def test_a_group_goes_on_from_its_own_offsets_so_a_start_elsewhere_is_refused(cli: CommandLine) -> None:
    assert "reset-offsets" in cli("consume", "any", "--group", "g", "--from", "42", code=1)
    assert "--partition" in cli("consume", "any", "--group", "g", "--partition", "1", code=1)


def test_a_topic_that_is_not_there_is_told_of_at_once(cli: CommandLine) -> None:
    assert "there is no topic 'misspelt'" in cli("consume", "misspelt", "--group", "g", code=1)


def test_a_group_of_the_brokers_is_shown_reset_and_deleted_like_any_other(
    cli: CommandLine, kafka_cluster: LocalCluster
) -> None:
    cli("topics", "create", "grouped-modern", "--partitions", "1")
    cli("produce", "grouped-modern", stdin=lines(10))
    ours = {"bootstrap.servers": kafka_cluster.bootstrap, "group.id": "modern", "auto.offset.reset": "earliest"}

    def read(count: int) -> list[bytes | None]:
        consumer.subscribe(["grouped-modern"])
        found = [message.value() for message in consumer.consume(count, 60)]
        consumer.commit(asynchronous=False)
        return found

    consumer = Consumer({**ours, "enable.auto.commit": False, "enable.auto.offset.store": True})
    try:
        assert read(4) == [b"0", b"1", b"2", b"3"]
        told = json.loads(cli("groups", "describe", "modern", "--json"))
        [kind] = told["kinds"]
        [member] = kind["members"]
        assert (kind["kind"], kind["state"]) == ("kafka", "Stable")
        assert told["partitions"] == [
            {
                "kind": "kafka",
                "topic": "grouped-modern",
                "partition": 0,
                "offset": 4,
                "end": 10,
                "lag": 6,
                "owner": member,
            }
        ]
        row = {"group": "modern", "kind": "kafka", "state": "Stable", "members": 1, "partitions": 1}
        assert row in json.loads(cli("groups", "list", "--json"))
        assert row in json.loads(cli("groups", "list", "--bootstrap", kafka_cluster.bootstrap, "--json"))
        reset = ("groups", "reset-offsets", "modern", "--all-topics")
        assert "1 live member" in cli(*reset, "--to-latest", code=1)
        assert "1 live member" in cli("groups", "delete", "modern", "--yes", code=1)
    finally:
        consumer.close()
    told = json.loads(cli(*reset, "--shift-by", "-3", "--dry-run", "--json"))
    assert told["offsets"] == [{"topic": "grouped-modern", "partition": 0, "old": 4, "new": 1}]
    assert (told["kind"], told["dry_run"]) == ("kafka", True)
    cli(*reset, "--by-duration", "PT1H")  # an hour ago there was nothing: from the beginning
    consumer = Consumer({**ours, "enable.auto.commit": False})
    try:
        assert read(2) == [b"0", b"1"]
    finally:
        consumer.close()
    cli("groups", "delete", "modern", "--yes")
    assert "there is no group modern" in cli("groups", "describe", "modern", code=1)


def test_a_group_that_keeps_its_offsets_in_the_brokers_is_one_group_and_reset_in_both_places(
    cli: CommandLine, kafka_cluster: LocalCluster
) -> None:
    cli("topics", "create", "grouped-dual", "--partitions", "1")
    cli("produce", "grouped-dual", stdin=lines(10))
    settings = {"auto.offset.reset": "smallest", "offsets.storage": "kafka", "consumer.timeout.ms": "60000"}

    def read(count: int) -> list[bytes | None]:
        with ConsumerConnector(kafka_cluster.zookeeper, "dual", settings) as connector:
            [stream] = connector.create_message_streams({"grouped-dual": 1})["grouped-dual"]
            found = [next(stream).value for _ in range(count)]
            connector.commit_offsets()
            return found

    assert read(8)[-1] == b"7"
    [row] = json.loads(cli("groups", "describe", "dual", "--json"))["partitions"]
    assert (row["kind"], row["offset"], row["lag"]) == ("zookeeper", 8, 2)
    assert [each["kind"] for each in json.loads(cli("groups", "list", "--json")) if each["group"] == "dual"] == [
        "zookeeper"
    ]
    cli("groups", "reset-offsets", "dual", "--all-topics", "--to-offset", "3")  # behind both: neither may be larger
    assert read(2) == [b"3", b"4"]
    cli("groups", "delete", "dual", "--yes")
    assert "there is no group dual" in cli("groups", "describe", "dual", code=1)
    assert read(1) == [b"0"]


FIRST, END, TIME = {("t", 0): 10}, {("t", 0): 20}, {("t", 0): 15}


@pytest.mark.parametrize(
    ("where", "committed", "new"),
    [
        (Earliest(), 12, 10),
        (Latest(), 12, 20),
        (AtOffset(13), 12, 13),
        (AtOffset(3), 12, 10),
        (AtOffset(99), 12, 20),
        (FromTime(5), 12, 15),
        (ShiftBy(-1), 12, 11),
        (ShiftBy(-9), 12, 10),
        (ShiftBy(9), 12, 20),
        (ShiftBy(-2), None, 18),
    ],
)
def test_a_reset_stays_within_the_log(where: Position | ShiftBy, committed: int | None, new: int) -> None:
    known = {} if committed is None else {("t", 0): committed}
    assert plan(where, [("t", 0)], known, FIRST, END, TIME) == [Move("t", 0, committed, new)]


def test_a_time_after_the_last_record_is_the_end() -> None:
    assert plan(FromTime(5), [("t", 0)], {}, FIRST, END, {("t", 0): -1}) == [Move("t", 0, None, 20)]


def test_lag_is_known_where_an_offset_and_an_end_are() -> None:
    group = Group("g", Kind.ZOOKEEPER, "Stable", ["a"], {("t", 0): "a-0", ("t", 1): "a-0"}, {("t", 0): 3, ("t", 2): 9})
    assert lags(group, {("t", 0): 10, ("t", 1): 4, ("t", 2): 5}) == [
        Row("zookeeper", "t", 0, 3, 10, 7, "a-0"),
        Row("zookeeper", "t", 1, None, 4, None, "a-0"),
        Row("zookeeper", "t", 2, 9, 5, 0, None),
    ]


@pytest.mark.parametrize(
    ("text", "ms"), [("PT90M", 5_400_000), ("P7D", 604_800_000), ("pt1h0.5s", 3_600_500), ("P1DT1M", 86_460_000)]
)
def test_a_duration_is_read(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


def test_groups_of_one_name_are_told_apart_unless_the_brokers_only_keep_offsets() -> None:
    at, other = ("t", 0), ("t", 1)
    balanced = Group("g", Kind.ZOOKEEPER, "Stable", ["a"], {at: "a-0"}, {at: 5}, stores=(Kind.ZOOKEEPER,))
    only_offsets = Group("g", Kind.KAFKA, "OnlyOffsets", offsets={at: 7, other: 1}, stores=(Kind.KAFKA,))
    coordinated = Group("g", Kind.KAFKA, "Empty", offsets={at: 7}, stores=(Kind.KAFKA,))
    [one] = merged(balanced, only_offsets)
    assert (one.kind, one.members, one.offsets) == (Kind.ZOOKEEPER, ["a"], {at: 7, other: 1})
    assert one.stores == (Kind.ZOOKEEPER, Kind.KAFKA)
    assert merged(balanced, coordinated) == [balanced, coordinated]
    assert merged(None, only_offsets) == [only_offsets]
    assert state_of(only_offsets) == "Empty"
    assert merged(balanced, None) == [balanced]
    assert merged(None, None) == []
