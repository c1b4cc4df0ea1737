"""How a broker starts: what it refuses, in one clear line, and which addresses it tells to whom."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.testing.broker import BrokerProcess
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.ports import PortLeases
from kafka_classic.testing.waiting import until
from kafka_classic.zk.brokers import BrokerRegistry
from kafka_classic.zk.partitions import PartitionStates
from kafka_classic.zk.session import Session
from kafka_classic.zk.topics import TopicRegistry
from tests.broker.calls import describe_cluster, metadata
from tests.broker.conftest import make_topic
from tests.broker.raw import Raw, batch, fetch, produce


@pytest.fixture
def ports() -> Iterator[PortLeases]:
    leases = PortLeases("127.0.0.1")
    yield leases
    leases.release_all()


def refusal(broker: BrokerProcess) -> str:
    """Start a broker that cannot start; returns the one line that it says."""
    broker.start()
    process = broker.process
    assert process is not None
    try:
        assert process.wait(60)
    finally:
        # One that starts after all would outlive this run, and join whichever cluster next has ZooKeeper's port.
        broker.kill()
    assert process.exit_code == 1
    said = broker.log_path.read_text()
    assert "Traceback" not in said
    assert f"broker {broker.id} ready" not in said
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    return errors[0]


class TestRefused:
    def test_a_second_broker_of_the_same_id_and_the_first_takes_no_harm(
        self, restartable: LocalCluster, tmp_path: Path, ports: PortLeases
    ) -> None:
        first = restartable.brokers[0]
        topic = make_topic(first.address)
        second = BrokerProcess(0, tmp_path, port=ports.draw(), zookeeper=restartable.zookeeper)
        line = refusal(second)
        assert "broker id 0 is taken" in line
        assert first.address in line
        with Raw(first.address) as raw:
            assert produce(raw, topic, batch(b"x")) == (0, 0)
            epoch = int(metadata(raw, topic).topics[0].partitions[0].leader_epoch)
            assert [(b.node_id, b.port) for b in metadata(raw).brokers] == [(0, first.port)]
        with Session(restartable.zookeeper) as session:
            state = PartitionStates(session).read(topic, 0)
        assert state is not None
        assert (state.leader, state.leader_epoch) == (0, epoch)

    def test_one_whose_id_was_taken_while_its_session_was_gone(
        self, restartable: LocalCluster, tmp_path: Path, ports: PortLeases
    ) -> None:
        """There cannot be two: it ends, and says why."""
        settings = {"zookeeper.session.timeout.ms": "1000"}
        with LocalCluster(tmp_path / "a", zookeeper=f"{restartable.zookeeper}/taken", settings=settings) as cluster:
            first = cluster.brokers[0]
            second = BrokerProcess(0, tmp_path / "b", port=ports.draw(), zookeeper=cluster.zookeeper)
            process = first.process
            assert process is not None
            first.pause()
            try:
                with Session(cluster.zookeeper) as session:
                    until(lambda: not BrokerRegistry(session).live())
                second.start()
                second.wait_ready()
                first.resume()
                assert process.wait(60)
                assert process.exit_code == 1
                said = first.log_path.read_text()
                assert f"error: broker id 0 is taken by {second.address}" in said
                assert "Traceback" not in said
                with Raw(second.address) as raw:
                    assert [(b.node_id, b.port) for b in metadata(raw).brokers] == [(0, second.port)]
            finally:
                second.kill()

    def test_a_folder_that_another_broker_uses(
        self, restartable: LocalCluster, tmp_path: Path, ports: PortLeases
    ) -> None:
        first = restartable.brokers[0]
        second = BrokerProcess(
            1,
            tmp_path,
            port=ports.draw(),
            zookeeper=restartable.zookeeper,
            settings={"log.dirs": str(first.data_dir)},
        )
        assert "another broker runs on" in refusal(second)

    @pytest.mark.parametrize(("name", "value"), [("cluster.id", "another-cluster-0000000"), ("broker.id", "77")])
    def test_a_folder_of_another_cluster_or_broker(
        self, restartable: LocalCluster, tmp_path: Path, ports: PortLeases, name: str, value: str
    ) -> None:
        mine = (restartable.brokers[0].data_dir / "meta.properties").read_text()
        lines = [line for line in mine.splitlines() if not line.startswith((name, "broker.id"))]
        lines += [f"{name}={value}"] if name == "broker.id" else [f"{name}={value}", "broker.id=5"]
        stranger = BrokerProcess(5, tmp_path, port=ports.draw(), zookeeper=restartable.zookeeper)
        stranger.data_dir.mkdir(parents=True)
        (stranger.data_dir / "meta.properties").write_text("\n".join(lines) + "\n")
        line = refusal(stranger)
        assert name.split(".")[0] in line
        assert value in line

    def test_a_port_that_is_taken(self, restartable: LocalCluster, tmp_path: Path) -> None:
        first = restartable.brokers[0]
        line = refusal(BrokerProcess(6, tmp_path, port=first.port, zookeeper=restartable.zookeeper))
        assert f"cannot listen on {first.address}" in line

    def test_a_zookeeper_that_is_not_there(self, tmp_path: Path, ports: PortLeases) -> None:
        nobody = f"127.0.0.1:{ports.draw()}"
        settings = {"zookeeper.connection.timeout.ms": "300"}
        line = refusal(BrokerProcess(0, tmp_path, port=ports.draw(), zookeeper=nobody, settings=settings))
        assert f"cannot reach ZooKeeper at {nobody}" in line

    def test_a_misspelt_setting(self, tmp_path: Path, ports: PortLeases) -> None:
        settings = {"log.retention.mss": "5"}
        line = refusal(BrokerProcess(0, tmp_path, port=ports.draw(), zookeeper="127.0.0.1:1", settings=settings))
        assert "did you mean log.retention.ms" in line


def test_a_folder_that_no_topic_claims_is_set_aside(restartable: LocalCluster) -> None:
    broker = restartable.brokers[0]
    topic = make_topic(broker.address)
    with Raw(broker.address) as raw:
        assert produce(raw, topic, batch(b"kept"))[0] == 0
    broker.stop()
    known = broker.data_dir / f"{topic}-0"
    shutil.copytree(known, broker.data_dir / "ghost-0")
    before = {path.name for path in broker.data_dir.iterdir()}
    broker.start()
    broker.wait_ready()
    (aside,) = {path.name for path in broker.data_dir.iterdir() if path.is_dir()} - before
    assert aside.startswith("ghost-0.")
    assert aside.endswith("-stray")
    with Raw(broker.address) as raw:
        assert fetch(raw, "ghost", 0)[0] == Error.unknown_topic_or_partition.value
        assert fetch(raw, topic, 0)[1] == 1


def test_a_folder_of_an_older_topic_of_the_same_name_is_set_aside(restartable: LocalCluster) -> None:
    """The topic was deleted and created anew while the broker was away: its data is not the new topic's."""
    broker = restartable.brokers[0]
    topic = make_topic(broker.address)
    with Raw(broker.address) as raw:
        assert produce(raw, topic, batch(b"old"))[0] == 0
    broker.stop()
    with Session(restartable.zookeeper) as session:
        registry = TopicRegistry(session)
        assert registry.delete(topic)
        registry.create(topic, {0: [0]}, {}, uuid4())
    broker.start()
    broker.wait_ready()
    with Raw(broker.address) as raw:
        assert fetch(raw, topic, 0) == (0, 0, b"")
        assert produce(raw, topic, batch(b"new")) == (0, 0)


def test_each_client_is_told_the_addresses_of_the_listener_it_came_by(
    restartable: LocalCluster, tmp_path: Path, ports: PortLeases
) -> None:
    inside = [ports.draw() for _ in range(2)]
    outside = [ports.draw() for _ in range(2)]
    brokers = []
    for id in range(2):
        settings = {
            "listeners": f"INSIDE://127.0.0.1:{inside[id]},OUTSIDE://127.0.0.1:{outside[id]}",
            "advertised.listeners": f"INSIDE://127.0.0.1:{inside[id]},OUTSIDE://kafka-{id}.example.com:1909{id}",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        }
        brokers.append(
            BrokerProcess(
                id, tmp_path, port=inside[id], zookeeper=f"{restartable.zookeeper}/listeners", settings=settings
            )
        )
    try:
        for broker in brokers:
            broker.start()
        for broker in brokers:
            broker.wait_ready(60, beside={0, 1})
        expected = {
            "inside": [(id, "127.0.0.1", inside[id]) for id in range(2)],
            "outside": [(id, f"kafka-{id}.example.com", 19090 + id) for id in range(2)],
        }
        for listener, listening in (("inside", inside), ("outside", outside)):
            for port in listening:
                with Raw(f"127.0.0.1:{port}") as raw:
                    told = [(b.node_id, b.host, b.port) for b in metadata(raw).brokers]
                    described = [(b.broker_id, b.host, b.port) for b in describe_cluster(raw).brokers]
                    assert told == described == expected[listener]
        # What is written by one listener is read by the other.
        topic = make_topic(f"127.0.0.1:{outside[0]}", assignment=[(0, [1])])
        with Raw(f"127.0.0.1:{inside[1]}") as a, Raw(f"127.0.0.1:{outside[1]}") as b:
            until(lambda: produce(a, topic, batch(b"x"))[0] == 0)
            assert fetch(b, topic, 0)[1] == 1
    finally:
        for broker in brokers:
            broker.stop()
