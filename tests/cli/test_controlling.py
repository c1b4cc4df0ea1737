"""`topics elect-leaders` and `topics reassign` against a scripted controller: what they ask, say and refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.alter_partition_reassignments.v1 import AlterPartitionReassignmentsResponse
from kio.schema.alter_partition_reassignments.v1.response import (
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.elect_leaders.v2 import ElectLeadersResponse
from kio.schema.elect_leaders.v2.response import PartitionResult, ReplicaElectionResult
from kio.schema.list_partition_reassignments.v0 import ListPartitionReassignmentsResponse
from kio.schema.list_partition_reassignments.v0.response import OngoingPartitionReassignment, OngoingTopicReassignment
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error
from tests.cli.command import CommandLine
from tests.client.answers import NO_TIME, metadata
from tests.client.scripted import Request, ScriptedBroker


class Controller:
    """One broker that answers as two, 0 and 1: partition N of the topic t is led by, and lives on, broker N."""

    def __init__(self) -> None:
        self.outcomes: dict[int, Error] = {}
        self.targets: dict[int, tuple[int, ...] | None] = {}
        self.left = 0
        self.broker = ScriptedBroker(
            {
                Api.METADATA: self._tell,
                Api.ELECT_LEADERS: self._elect,
                Api.ALTER_PARTITION_REASSIGNMENTS: self._alter,
                Api.LIST_PARTITION_REASSIGNMENTS: self._list,
            }
        )

    def asked(self, api: Api) -> list[Request]:
        return [request for request in self.broker.requests if request.header.api_key == api]

    def _tell(self, request: Request) -> object:
        asked = {str(topic.name) for topic in request.body.topics or ()}
        missing = dict.fromkeys(asked - {"t"}, Error.unknown_topic_or_partition)
        return metadata({0: self.broker.port, 1: self.broker.port}, {"t": [0, 1]}, missing)

    def _elect(self, request: Request) -> object:
        results = tuple(
            PartitionResult(partition_id=i32(index), error_code=code, error_message=None)
            for index, code in self.outcomes.items()
        )
        return ElectLeadersResponse(
            throttle_time=NO_TIME,
            error_code=Error.none,
            replica_election_results=(ReplicaElectionResult(topic=TopicName("t"), partition_result=results),),
        )

    def _alter(self, request: Request) -> object:
        asked = {int(one.partition_index): one.replicas for topic in request.body.topics for one in topic.partitions}
        self.targets.update(asked)
        return AlterPartitionReassignmentsResponse(
            throttle_time=NO_TIME,
            error_code=Error.none,
            error_message=None,
            responses=(
                ReassignableTopicResponse(
                    name=TopicName("t"),
                    partitions=tuple(
                        ReassignablePartitionResponse(
                            partition_index=i32(index),
                            error_code=self.outcomes.get(index, Error.none),
                            error_message=None,
                        )
                        for index in asked
                    ),
                ),
            ),
        )

    def _list(self, _: Request) -> object:
        """Partition 0 is on its way as often as `left` says."""
        self.left -= 1
        move = OngoingPartitionReassignment(
            partition_index=i32(0),
            replicas=(BrokerId(1), BrokerId(0)),
            adding_replicas=(BrokerId(1),),
            removing_replicas=(BrokerId(0),),
        )
        return ListPartitionReassignmentsResponse(
            throttle_time=NO_TIME,
            error_code=Error.none,
            error_message=None,
            topics=(OngoingTopicReassignment(name=TopicName("t"), partitions=(move,)),) if self.left >= 0 else (),
        )


@pytest.fixture
def controller() -> Iterator[Controller]:
    made = Controller()
    yield made
    made.broker.close()


@pytest.fixture
def cli(controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, controller.broker.address)


def test_an_election_tells_who_leads_now_and_who_needed_none(cli: CommandLine, controller: Controller) -> None:
    controller.outcomes = {0: Error.none, 1: Error.election_not_needed}
    assert cli("topics", "elect-leaders", "t").splitlines() == [
        "t-0 is led by broker 0 now",
        "1 partition needed no election",
    ]
    told = json.loads(cli("topics", "elect-leaders", "t", "--json"))
    assert told == [
        {"topic": "t", "partition": 0, "elected": True, "leader": 0, "error": None},
        {"topic": "t", "partition": 1, "elected": False, "leader": None, "error": "ELECTION_NOT_NEEDED"},
    ]
    bodies = [request.body for request in controller.asked(Api.ELECT_LEADERS)]
    assert [(body.election_type, body.topic_partitions[0].partitions) for body in bodies] == [(0, (0, 1))] * 2


def test_an_election_may_be_unclean_of_one_partition_or_of_all(cli: CommandLine, controller: Controller) -> None:
    assert cli("topics", "elect-leaders", "--all", "--unclean") == "no partition needed an election\n"
    cli("topics", "elect-leaders", "t", "--partition", "1")
    everything, one = (request.body for request in controller.asked(Api.ELECT_LEADERS))
    assert (everything.election_type, everything.topic_partitions) == (1, None)
    assert (one.election_type, one.topic_partitions[0].partitions) == (0, (1,))


def test_an_election_that_fails_is_one_line_with_what_to_do(cli: CommandLine, controller: Controller) -> None:
    controller.outcomes = {0: Error.preferred_leader_not_available, 1: Error.preferred_leader_not_available}
    line = cli("topics", "elect-leaders", "t", code=1)
    assert line.startswith("error: PREFERRED_LEADER_NOT_AVAILABLE: partition 0 of 't'")
    assert "and 1 more like it; try again when 'kafka-classic topics describe' shows it in Isr" in line
    assert "no partition 5" in cli("topics", "elect-leaders", "t", "--partition", "5", code=1)
    assert "no topic 'nowhere'" in cli("topics", "elect-leaders", "nowhere", code=1)


def test_a_partition_moves_to_the_replicas_named(cli: CommandLine, controller: Controller) -> None:
    said = cli("topics", "reassign", "t", "--partition", "0", "--replicas", "1,0").splitlines()
    assert [line.split() for line in said] == [["topic", "partition", "from", "to"], ["t", "0", "0", "1,0"]]
    assert controller.targets == {0: (1, 0)}
    told = json.loads(cli("topics", "reassign", "t", "--partition", "1", "--replicas", "0", "--json"))
    assert told["before"]["partitions"] == [{"topic": "t", "partition": 1, "replicas": [1]}]
    assert told["after"]["partitions"] == [{"topic": "t", "partition": 1, "replicas": [0]}]


def test_a_plan_made_by_a_dry_run_can_be_carried_out(cli: CommandLine, controller: Controller, tmp_path: Path) -> None:
    plan = cli("topics", "reassign", "t", "--to-brokers", "0,1", "--replication-factor", "2", "--dry-run")
    assert json.loads(plan) == {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [0, 1]},
            {"topic": "t", "partition": 1, "replicas": [1, 0]},
        ],
    }
    assert controller.asked(Api.ALTER_PARTITION_REASSIGNMENTS) == []
    (tmp_path / "plan.json").write_text(plan)
    cli("topics", "reassign", "--plan", str(tmp_path / "plan.json"))
    assert controller.targets == {0: (0, 1), 1: (1, 0)}


def test_waiting_ends_when_all_has_arrived_or_time_is_over(cli: CommandLine, controller: Controller) -> None:
    controller.left = 2
    cli("topics", "reassign", "t", "--partition", "0", "--replicas", "1", "--wait")
    assert len(controller.asked(Api.LIST_PARTITION_REASSIGNMENTS)) == 3
    controller.left = 1000
    said = cli("topics", "reassign", "t", "--partition", "0", "--replicas", "1", "--wait", "--timeout", "0", code=1)
    assert "1 of 1 on the way: t-0" in said
    assert "error: t-0 not there after 0 s, and still on the way" in said


def test_moves_are_listed_and_cancelled(cli: CommandLine, controller: Controller) -> None:
    assert cli("topics", "reassign", "--list") == "nothing is on its way\n"
    assert "nothing of t is on its way" in cli("topics", "reassign", "t", "--cancel", code=1)
    controller.left = 1000
    (move,) = json.loads(cli("topics", "reassign", "--list", "--json"))
    assert move == {"topic": "t", "partition": 0, "replicas": [1, 0], "adding": [1], "removing": [0]}
    assert cli("topics", "reassign", "--list").splitlines()[1].split() == ["t", "0", "1,0", "1", "0"]
    assert cli("topics", "reassign", "t", "--cancel") == "cancelled: t-0\n"
    assert controller.targets == {0: None}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["t", "--partition", "0", "--replicas", "0,9"],
            "broker 9, meant for t-0, is not in the cluster; try one of 0, 1",
        ),
        (["t", "--partition", "7", "--replicas", "0"], "no partition 7"),
        (["t", "--to-brokers", "0,x"], "is not a list of broker ids"),
        (["t", "--to-brokers", "0,1", "--replication-factor", "3"], "3 replicas do not fit on 2 brokers"),
        (["nowhere", "--to-brokers", "0"], "no topic 'nowhere'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_move_that_cannot_be_is_refused_before_it_begins(
    cli: CommandLine, controller: Controller, arguments: list[str], said: str
) -> None:
    line = cli("topics", "reassign", *arguments, code=1)
    assert said in line
    assert line.count("\n") == 1
    assert controller.targets == {}


def test_what_the_controller_refuses_is_told_by_kafkas_name(cli: CommandLine, controller: Controller) -> None:
    controller.outcomes = {0: Error.invalid_replica_assignment}
    said = cli("topics", "reassign", "t", "--to-brokers", "1", code=1)
    assert said.startswith("error: INVALID_REPLICA_ASSIGNMENT: partition 0 of 't'")
