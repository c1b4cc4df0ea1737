"""What a broker does by the clock and at its end: retention, idle connections, checkpoints, a clean stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.log.checkpoint import read_checkpoint
from kafka_classic.records.batch import check_batch, iter_batches
from kafka_classic.records.encode import encode_batch
from kafka_classic.testing.broker import BrokerProcess
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.ports import PortLeases
from kafka_classic.testing.waiting import until
from tests.broker.calls import api_versions, create_topics, list_offsets, new_topic, set_configs
from tests.broker.conftest import make_topic
from tests.broker.raw import Raw, batch, fetch, fetch_frame, fetched, produce, produce_frame

EARLIEST, LATEST = -2, -1
MB = 1 << 20


@pytest.fixture
def broker(restartable: LocalCluster) -> BrokerProcess:
    return restartable.brokers[0]


@pytest.fixture
def house(broker: BrokerProcess) -> Iterator[Raw]:
    """A connection to a broker that looks after its logs ten times a second."""
    with Raw(broker.address) as connection:
        yield connection


def segments(broker: BrokerProcess, topic: str) -> list[Path]:
    return sorted((broker.data_dir / f"{topic}-0").glob("*.log"))


class TestRetention:
    def test_segments_older_than_retention_ms_go_and_the_log_goes_on(self, broker: BrokerProcess, house: Raw) -> None:
        topic = make_topic(broker.address, configs={"retention.ms": "3600000", "segment.bytes": "1000"})
        long_ago = int(time.time() * 1000) - 7_200_000
        for _ in range(10):
            assert produce(house, topic, encode_batch([(None, b"v" * 400, (), long_ago)]))[0] == 0
        assert produce(house, topic, batch(b"fresh"))[0] == 0
        # All but the file of the last, which may share its own with older ones.
        until(lambda: int(list_offsets(house, topic, EARLIEST).offset) >= 9)
        assert len(segments(broker, topic)) == 1
        assert list_offsets(house, topic, LATEST).offset == 11
        assert fetch(house, topic, 0)[0] == Error.offset_out_of_range.value
        assert fetch(house, topic, 10)[0] == 0

    def test_a_log_that_is_old_as_a_whole_is_emptied_and_keeps_its_offsets(
        self, broker: BrokerProcess, house: Raw
    ) -> None:
        topic = make_topic(broker.address, configs={"retention.ms": "3600000"})
        long_ago = int(time.time() * 1000) - 7_200_000
        assert produce(house, topic, encode_batch([(None, b"v", (), long_ago)] * 5))[0] == 0
        until(lambda: list_offsets(house, topic, EARLIEST).offset == 5)
        assert produce(house, topic, batch(b"fresh")) == (0, 5)

    def test_segments_over_retention_bytes_go(self, broker: BrokerProcess, house: Raw) -> None:
        topic = make_topic(broker.address, configs={"segment.bytes": "1000"})
        for _ in range(20):
            assert produce(house, topic, batch(b"v" * 400))[0] == 0
        assert len(segments(broker, topic)) == 10
        set_configs(house, topic, retention_bytes="3000")
        until(lambda: len(segments(broker, topic)) <= 4)
        assert sum(path.stat().st_size for path in segments(broker, topic)) >= 2900
        assert list_offsets(house, topic, EARLIEST).offset == int(segments(broker, topic)[0].stem)

    def test_a_waiting_reader_of_what_is_deleted_is_told(self, broker: BrokerProcess, house: Raw) -> None:
        topic = make_topic(broker.address, configs={"segment.bytes": "1000"})
        for _ in range(10):
            assert produce(house, topic, batch(b"v" * 400))[0] == 0
        set_configs(house, topic, retention_bytes="1000")
        until(lambda: int(list_offsets(house, topic, EARLIEST).offset) > 0)
        assert fetch(house, topic, 0, max_wait_ms=300_000)[0] == Error.offset_out_of_range.value

    def test_a_slow_reader_gets_all_of_a_segment_that_is_deleted_meanwhile(
        self, broker: BrokerProcess, house: Raw
    ) -> None:
        topic = make_topic(broker.address, configs={"segment.bytes": str(12 * MB)})
        sent = [batch(b"%02d " % n + bytes([n]) * 1_000_000) for n in range(14)]
        for one in sent:
            assert produce(house, topic, one)[0] == 0
        first = segments(broker, topic)[0]
        size = first.stat().st_size
        with Raw(broker.address) as slow:
            slow.send(fetch_frame(topic, 0, partition_max_bytes=20 * MB))
            head = slow.exactly(1000)  # the answer is under way, and larger than what the sockets hold
            set_configs(house, topic, retention_bytes="1000")
            until(lambda: not first.exists())
            total = int.from_bytes(head[:4], "big") + 4
            answer = head + slow.exactly(total - len(head))
            records = answer[-size:]
            assert [h.base_offset for _, h in iter_batches(records)] == list(range(size // len(sent[0])))
            for at, _ in iter_batches(records):
                check_batch(records, at)
            # And the connection goes on, from where the log now begins.
            assert fetch(slow, topic, 0)[0] == Error.offset_out_of_range.value
            assert fetch(slow, topic, 13)[0] == 0


class TestIdleConnections:
    @pytest.fixture
    def impatient(self, restartable: LocalCluster, tmp_path: Path) -> Iterator[BrokerProcess]:
        leases = PortLeases("127.0.0.1")
        broker = BrokerProcess(
            0,
            tmp_path,
            port=leases.draw(),
            zookeeper=f"{restartable.zookeeper}/idle",
            settings={"connections.max.idle.ms": "300"},
        )
        broker.start()
        broker.wait_ready()
        yield broker
        broker.stop()
        leases.release_all()

    def test_an_idle_one_is_closed_and_a_long_poll_is_not(self, impatient: BrokerProcess) -> None:
        address = impatient.address
        topic = make_topic(address)
        with Raw(address) as silent, Raw(address) as half, Raw(address) as waiting:
            api_versions(silent)
            half.send(produce_frame(topic, batch(b"never whole"))[:-1])
            waiting.send(fetch_frame(topic, 0, max_wait_ms=300_000))
            assert silent.is_closed()
            assert half.is_closed()
            for _ in range(3):  # several idle times go by
                with Raw(address) as another:
                    assert another.is_closed()
            with Raw(address) as writer:
                assert produce(writer, topic, batch(b"x")) == (0, 0)
            assert fetched(waiting, topic)[:2] == (0, 1)
            assert waiting.is_closed()  # now it is idle too

    def test_one_whose_request_takes_long_is_not_idle(
        self, impatient: BrokerProcess, restartable: LocalCluster
    ) -> None:
        keeper = restartable.zookeeper_server
        assert keeper is not None
        with Raw(impatient.address) as raw:
            keeper.pause()
            try:
                (late,) = create_topics(raw, new_topic("late"), timeout_ms=1500)
            finally:
                keeper.resume()
            assert late.error_code is Error.request_timed_out


class TestTheEnd:
    def test_recovery_points_are_written_down_by_the_clock(self, broker: BrokerProcess, house: Raw) -> None:
        topic = make_topic(broker.address, configs={"flush.messages": "1"})
        path = broker.data_dir / "recovery-point-offset-checkpoint"
        for _ in range(3):
            assert produce(house, topic, batch(b"x", b"y"))[0] == 0
        until(lambda: read_checkpoint(path).get((topic, 0)) == 6)

    def test_the_marker_of_a_clean_stop_stands_only_between_stop_and_start(self, broker: BrokerProcess) -> None:
        marker = broker.data_dir / ".kafka_cleanshutdown"
        assert not marker.exists()
        broker.stop()
        assert marker.exists()
        broker.start()
        broker.wait_ready()
        assert not marker.exists()
        broker.kill()
        assert not marker.exists()
        broker.start()
        broker.wait_ready()

    def test_a_stop_waits_for_no_client(self, broker: BrokerProcess) -> None:
        """Open connections, waiting fetches, half a request, one who does not read: it goes all the same."""
        topic = make_topic(broker.address)
        raws = [Raw(broker.address) for _ in range(50)]
        for _ in range(8):
            assert produce(raws[0], topic, batch(b"v" * 900_000))[0] == 0
        for raw in raws[10:20]:
            raw.send(fetch_frame(topic, 8, max_wait_ms=300_000))
        for raw in raws[20:30]:
            raw.send(produce_frame(topic, batch(b"half of it"))[:-10])
        for raw in raws[30:33]:
            raw.send(fetch_frame(topic, 0, partition_max_bytes=50 * MB) * 20)
        api_versions(raws[0])
        process = broker.process
        assert process is not None
        assert broker.stop(60)
        assert process.exit_code == 0
        for raw in raws:
            assert raw.is_closed()
            raw.sock.close()
        broker.start()
        broker.wait_ready()
        with Raw(broker.address) as raw:
            assert fetch(raw, topic, 8)[:2] == (0, 8)

    def test_what_was_acknowledged_as_it_stopped_is_there(self, broker: BrokerProcess) -> None:
        topic = make_topic(broker.address, configs={"flush.messages": "1"})
        acknowledged = 0
        with Raw(broker.address) as raw:
            assert produce(raw, topic, batch(b"x"))[0] == 0
            process = broker.process
            assert process is not None
            raw.send(produce_frame(topic, batch(b"x")) * 500)
            process.terminate(60)
            try:
                while True:
                    raw.frame()
                    acknowledged += 1
            except ConnectionError:
                pass
        broker.stop()
        broker.start()
        broker.wait_ready()
        with Raw(broker.address) as raw:
            assert fetch(raw, topic, 0)[1] >= 1 + acknowledged
        # A flush that was under way when the logs were closed is no failure of theirs.
        assert "offline" not in broker.log_path.read_text()
