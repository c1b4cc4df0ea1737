"""A cluster of real processes starts, breaks and stops as it is told, and is found again."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_classic.client.errors import RequestTimedOut
from kafka_classic.client.probe import registered_brokers
from kafka_classic.testing.broker import BrokerDied
from kafka_classic.testing.cluster import AlreadyRunning, LocalCluster, PortTaken
from kafka_classic.testing.ports import PortLeases, is_free
from kafka_classic.testing.process import start_time
from kafka_classic.testing.waiting import until
from kafka_classic.wire.errors import KafkaError

START_AND_WAIT = """
import sys
from pathlib import Path
from kafka_classic.testing import LocalCluster
cluster = LocalCluster(Path(sys.argv[1]), detach=sys.argv[2] == "detach").start()
print(cluster.zookeeper_server.pid, *(broker.pid for broker in cluster.brokers), flush=True)
if sys.argv[2] == "stay":
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("three"), brokers=3) as cluster:
        yield cluster


def _start_elsewhere(directory: Path, how: str) -> tuple[subprocess.Popen[bytes], list[int]]:
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", START_AND_WAIT, str(directory), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    with parent.stdout as out:
        return parent, [int(pid) for pid in out.readline().split()]


def test_every_broker_serves_and_knows_all_the_others(three: LocalCluster) -> None:
    addresses = {broker.id: (broker.host, broker.port) for broker in three.brokers}
    assert three.bootstrap == ",".join(f"{host}:{port}" for host, port in addresses.values())
    for broker in three.brokers:
        assert registered_brokers(broker.host, broker.port) == addresses


def test_a_killed_broker_is_gone_and_comes_back_where_it_was(three: LocalCluster) -> None:
    broker = three.brokers[1]
    pid, port = broker.pid, broker.port
    broker.kill()
    assert not broker.alive()
    assert is_free(port)
    broker.start()
    broker.wait_ready()
    assert broker.pid != pid
    assert broker.port == port
    three.wait_ready()


def test_a_paused_broker_answers_nothing_until_it_goes_on(three: LocalCluster) -> None:
    broker = three.brokers[2]
    broker.pause()
    try:
        assert broker.alive()
        with pytest.raises(RequestTimedOut):
            registered_brokers(broker.host, broker.port, timeout=0.3)
    finally:
        broker.resume()
    broker.wait_ready()


def test_a_stopped_broker_ends_cleanly_and_leaves_the_others_metadata(three: LocalCluster) -> None:
    stopped, other = three.brokers[0], three.brokers[1]
    assert stopped.stop() is True
    until(lambda: 0 not in registered_brokers(other.host, other.port))
    stopped.restart()
    three.wait_ready()


def test_a_paused_broker_stops_too(three: LocalCluster) -> None:
    broker = three.brokers[0]
    broker.pause()
    assert broker.stop() is True
    broker.restart()


def test_processor_time_and_memory_of_a_broker_are_read(three: LocalCluster) -> None:
    assert three.brokers[0].cpu_seconds() > 0.05
    assert three.brokers[0].rss_bytes() > 10 << 20


def test_a_broker_that_runs_is_not_started_twice(three: LocalCluster) -> None:
    with pytest.raises(RuntimeError, match="broker 0 already runs as process"):
        three.brokers[0].start()


def test_a_directory_in_use_is_refused_with_what_to_do(three: LocalCluster) -> None:
    with pytest.raises(AlreadyRunning, match="kafka-classic down --dir"):
        LocalCluster(three.dir).start()


def test_zookeeper_may_be_killed_and_comes_back_where_it_was(three: LocalCluster) -> None:
    own = three.zookeeper_server
    assert own is not None
    before = own.address
    own.kill()
    assert not own.alive()
    own.start()
    assert own.address == before
    state = three.state()
    assert state.embedded is not None
    assert state.embedded.pid == own.pid
    three.brokers[0].restart()  # which registers, so it has found ZooKeeper again
    three.wait_ready()


def test_a_second_cluster_may_share_zookeeper_under_a_name_of_its_own(three: LocalCluster, tmp_path: Path) -> None:
    with LocalCluster(tmp_path, zookeeper=f"{three.zookeeper}/second") as second:
        only = second.brokers[0]
        assert second.zookeeper_server is None
        assert list(registered_brokers(only.host, only.port)) == [0]
    assert three.zookeeper_server is not None
    assert three.zookeeper_server.alive()


def test_a_broker_is_added_while_the_others_run(three: LocalCluster) -> None:
    added = three.add_broker({"broker.rack": "r1"})
    try:
        assert added.id == 3
        assert set(registered_brokers(added.host, added.port)) == {0, 1, 2, 3}
    finally:
        added.stop()
        three.brokers.remove(added)


def test_a_broker_that_cannot_start_fails_at_once_with_the_end_of_its_log(three: LocalCluster, tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, zookeeper=f"{three.zookeeper}/wrong", settings={"no.such.setting": "1"})
    with pytest.raises(BrokerDied, match=r"(?s)broker 0 on .* ended with code 1.*no\.such\.setting"):
        cluster.start()
    assert not cluster.alive()


def test_a_port_taken_at_the_last_moment_is_exchanged(
    three: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = PortLeases.draw
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = iter([other.getsockname()[1]])
        monkeypatch.setattr(PortLeases, "draw", lambda self: next(taken, None) or draw(self))
        with LocalCluster(tmp_path, zookeeper=f"{three.zookeeper}/ports") as cluster:
            assert cluster.brokers[0].port != other.getsockname()[1]


def test_a_port_asked_for_by_number_and_taken_is_reported(three: LocalCluster, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        cluster = LocalCluster(tmp_path, zookeeper=f"{three.zookeeper}/number", base_port=port)
        with pytest.raises(PortTaken, match=f"port {port} for broker 0 is used by another program"):
            cluster.start()


def test_a_detached_cluster_is_found_again_and_keeps_its_ports(tmp_path: Path) -> None:
    parent, pids = _start_elsewhere(tmp_path, "detach")
    parent.communicate()
    assert parent.returncode == 0
    found = LocalCluster.find(tmp_path)
    assert found is not None
    try:
        assert found.zookeeper_server is not None
        assert [found.zookeeper_server.pid, *(broker.pid for broker in found.brokers)] == pids
        assert set(registered_brokers("127.0.0.1", found.brokers[0].port)) == {0}
        bootstrap, zookeeper = found.bootstrap, found.zookeeper
    finally:
        found.stop()
    assert not any(start_time(pid) for pid in pids)

    with LocalCluster(tmp_path) as again:
        assert (again.bootstrap, again.zookeeper) == (bootstrap, zookeeper)
    stopped = LocalCluster.find(tmp_path)
    assert stopped is not None
    assert not stopped.alive()


def test_nothing_outlives_a_parent_that_was_killed(tmp_path: Path) -> None:
    parent, pids = _start_elsewhere(tmp_path, "stay")
    assert len(pids) == 2
    parent.kill()
    parent.communicate()
    until(lambda: not any(start_time(pid) for pid in pids))


def test_there_is_no_cluster_where_none_was_started(tmp_path: Path) -> None:
    assert LocalCluster.find(tmp_path) is None


def test_a_broker_that_was_never_started_says_so(tmp_path: Path) -> None:
    broker = LocalCluster(tmp_path, zookeeper="127.0.0.1:1").brokers[0]
    with pytest.raises(BrokerDied, match="call start"):
        broker.wait_ready()
    with pytest.raises(RuntimeError, match="does not run"):
        broker.pause()
    assert broker.stop() is True


def test_a_broker_that_is_gone_cannot_be_reached(three: LocalCluster) -> None:
    broker = three.brokers[2]
    broker.kill()
    with pytest.raises(KafkaError, match="connection refused"):
        registered_brokers(broker.host, broker.port)
    broker.restart()
