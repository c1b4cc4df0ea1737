"""Measure what a coordinator spends on heartbeats, commits and fetches of offsets, and on groups that stand there.

python -P bench/groups.py [--quick] [--json]

One broker, one bare socket; so many requests are sent at a time that the broker is never idle, and its own processor
time is divided by their number. Memory is the broker's, before and after so many groups of one member each.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

import kio.schema.find_coordinator.v6.request as find_request
import kio.schema.heartbeat.v4.request as heartbeat_request
import kio.schema.join_group.v9.request as join_request
import kio.schema.offset_commit.v9.request as commit_request
import kio.schema.offset_fetch.v9.request as fetch_request
import kio.schema.sync_group.v5.request as sync_request

from bench.load import results
from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_response, write_request

FIND: Any = find_request
HEARTBEAT: Any = heartbeat_request
JOIN: Any = join_request
COMMIT: Any = commit_request
FETCH: Any = fetch_request
SYNC: Any = sync_request

AT_A_TIME = 50


class Measured(NamedTuple):
    case: str
    requests: int
    cpu_us: float
    per_second: float


class Wire:
    """A socket that sends requests of one API in one version."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._sock = socket.create_connection((host, int(port)), 60)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._sock.makefile("rb")

    def call(self, api: Api, version: int, body: Any) -> Any:
        self._sock.sendall(write_request(api, version, 1, "bench", body))
        return read_response(api, version, self._frame())[1]

    def pour(self, frame: bytes, count: int) -> None:
        """Send the same request so often, some of them at a time."""
        for at in range(0, count, AT_A_TIME):
            some = min(AT_A_TIME, count - at)
            self._sock.sendall(frame * some)
            for _ in range(some):
                self._frame()

    def _frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._file.read(4))
        return self._file.read(size)


def joined(wire: Wire, group: str) -> tuple[str, int]:
    """Be the one member of a group; returns its id and the generation."""
    protocols = (JOIN.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0"),)
    member = ""
    while True:
        answer = wire.call(
            Api.JOIN_GROUP,
            9,
            JOIN.JoinGroupRequest(
                group_id=group,
                session_timeout=timedelta(minutes=5),
                rebalance_timeout=timedelta(minutes=5),
                member_id=member,
                protocol_type="consumer",
                protocols=protocols,
            ),
        )
        member = answer.member_id
        if not answer.error_code:
            break
        if not member:
            time.sleep(0.05)  # its partition is being loaded
    row = SYNC.SyncGroupRequestAssignment(member_id=member, assignment=b"x" * 100)
    body = SYNC.SyncGroupRequest(
        group_id=group, generation_id=answer.generation_id, member_id=member, assignments=(row,)
    )
    assert not wire.call(Api.SYNC_GROUP, 5, body).error_code
    return member, answer.generation_id


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    results.add_option(parser)
    options = parser.parse_args()
    count, groups = (5_000, 500) if options.quick else (50_000, 5_000)
    with tempfile.TemporaryDirectory() as folder, LocalCluster(Path(folder)) as cluster:
        broker = cluster.brokers[0]
        with Cluster(cluster.bootstrap) as client:
            create_topics(client, [NewTopic("t", 100)])
            client_of_groups = Wire(broker.address)
            body = FIND.FindCoordinatorRequest(key_type=0, coordinator_keys=("bench",))
            while client_of_groups.call(Api.FIND_COORDINATOR, 6, body).coordinators[0].error_code:
                time.sleep(0.05)
        wire = Wire(broker.address)
        member, generation = joined(wire, "bench")

        def commit(partitions: int) -> Any:
            rows = tuple(
                COMMIT.OffsetCommitRequestPartition(partition_index=n, committed_offset=n, committed_metadata="")
                for n in range(partitions)
            )
            return COMMIT.OffsetCommitRequest(
                group_id="bench",
                generation_id_or_member_epoch=generation,
                member_id=member,
                topics=(COMMIT.OffsetCommitRequestTopic(name="t", partitions=rows),),
            )

        asked = FETCH.OffsetFetchRequestGroup(group_id="bench", topics=None)
        lines: list[results.Line] = []
        cases = [
            (
                "heartbeat",
                Api.HEARTBEAT,
                4,
                HEARTBEAT.HeartbeatRequest(group_id="bench", generation_id=generation, member_id=member),
            ),
            ("commit of 1 partition", Api.OFFSET_COMMIT, 9, commit(1)),
            ("commit of 100 partitions", Api.OFFSET_COMMIT, 9, commit(100)),
            ("fetch of 100 offsets", Api.OFFSET_FETCH, 9, FETCH.OffsetFetchRequest(groups=(asked,))),
        ]
        for name, api, version, request in cases:
            frame = write_request(api, version, 1, "bench", request)
            wire.pour(frame, count // 10)
            many = count // 10 if "100" in name else count
            cpu, began = broker.cpu_seconds(), time.monotonic()
            wire.pour(frame, many)
            took, cpu = time.monotonic() - began, broker.cpu_seconds() - cpu
            lines.append(tell(options.json, Measured(name, many, cpu / many * 1e6, many / took)))
        before, cpu, began = broker.rss_bytes(), broker.cpu_seconds(), time.monotonic()
        for n in range(groups):
            joined(wire, f"group-{n}")
        took, cpu = time.monotonic() - began, broker.cpu_seconds() - cpu
        one = Measured("a group of one: join, join again, sync", groups, cpu / groups * 1e6, groups / took)
        lines.append(tell(options.json, one))
        grown = broker.rss_bytes() - before
        line = {"case": "memory of a group of one", "count": groups, "bytes": grown // groups}
        lines.append(results.row("groups", "memory of a group of one", grown / groups, "bytes"))
        results.keep_run(lines, options)
        print(json.dumps(line) if options.json else f"{line['case']:<40} {line['bytes']:>8} bytes")
    return 0


def tell(as_json: bool, one: Measured) -> results.Line:
    if as_json:
        print(json.dumps(one._asdict()), flush=True)
    else:
        print(f"{one.case:<40} {one.cpu_us:>8.1f} µs of the broker  {one.per_second:>8.0f} a second", flush=True)
    return results.row("groups", one.case, one.cpu_us, "µs of the broker")


if __name__ == "__main__":
    sys.exit(main())
