"""A writer keeps the order, sends again what may yet succeed, and says what cannot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from kio.schema.init_producer_id.v6 import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from kafka_classic.client.backoff import Backoff
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.simple import produce
from kafka_classic.client.writer import Acknowledged, Writer
from kafka_classic.records.batch import iter_batches
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import decode_records
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError
from tests.client.answers import NO_TIME, metadata, produced
from tests.client.scripted import Hangup, Request, ScriptedBroker

QUICK = Backoff(first=0.001, longest=0.01)
RECORDS = [(None, b"value %d" % i, (), 1000 + i) for i in range(100)]


class Log:
    """What a pair of brokers has been sent and has accepted, with the idempotence checks of a real one."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, int], list[bytes | None]] = {}
        self.sequences: dict[tuple[str, int], int] = {}
        self.codecs: set[int] = set()
        # What to do with the n-th produce request: an error for all of it, an exception, or accept and then raise.
        self.faults: dict[int, Callable[[], Error] | type[Exception]] = {}
        self.requests = 0

    def __call__(self, request: Request) -> object:
        fault = self.faults.get(self.requests)
        self.requests += 1
        if fault is Hangup:
            raise Hangup
        answers: dict[tuple[str, int], tuple[Error, int]] = {}
        for topic in request.body.topic_data:
            for one in topic.partition_data:
                at = str(topic.name), int(one.index)
                if fault is not None and not isinstance(fault, type):
                    answers[at] = fault(), -1
                else:
                    answers[at] = self._append(at, bytes(one.records))
        if fault is ConnectionError:
            raise Hangup  # written, and nobody is told
        return produced(answers) if request.body.acks else None

    def _append(self, at: tuple[str, int], data: bytes) -> tuple[Error, int]:
        (_, header), *_ = iter_batches(data)
        self.codecs.add(header.codec)
        log = self.values.setdefault(at, [])
        if header.producer_id >= 0:
            expected = self.sequences.get(at, 0)
            if header.base_sequence < expected:
                return Error.none, header.base_sequence
            if header.base_sequence > expected:
                return Error.out_of_order_sequence_number, -1
            self.sequences[at] = expected + header.record_count
        log += [record.value for record in decode_records(data)]
        return Error.none, len(log) - header.record_count


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def broker(log: Log) -> Iterator[ScriptedBroker]:
    with ScriptedBroker({Api.PRODUCE: log}) as scripted:
        scripted.handlers[Api.METADATA] = lambda _: metadata({0: scripted.port}, {"t": [0, 0, 0]})
        scripted.handlers[Api.INIT_PRODUCER_ID] = lambda _: InitProducerIdResponse(
            throttle_time=NO_TIME, error_code=Error.none, producer_id=ProducerId(4000), producer_epoch=i16(0)
        )
        yield scripted


@pytest.fixture
def cluster(broker: ScriptedBroker) -> Iterator[Cluster]:
    with Cluster(broker.address, backoff=QUICK) as made:
        yield made


def _values(records: list[tuple[None, bytes, tuple[()], int]]) -> list[bytes]:
    return [value for _, value, _, _ in records]


@pytest.mark.parametrize("codec", Codec)
def test_records_arrive_in_order_in_batches(cluster: Cluster, log: Log, codec: Codec) -> None:
    assert produce(cluster, "t", 1, RECORDS, codec=codec, batch_bytes=500) == 0
    assert log.values == {("t", 1): _values(RECORDS)}
    assert log.codecs == {codec}
    assert 3 < log.requests < 20


def test_several_partitions_share_one_request_to_their_leader(cluster: Cluster, log: Log) -> None:
    acknowledged: list[Acknowledged] = []
    with Writer(cluster, on_acknowledged=acknowledged.append) as writer:
        for i, record in enumerate(RECORDS):
            writer.write("t", i % 3, record)
    assert log.requests == 1
    assert sorted(acknowledged) == [("t", 0, 0, 34), ("t", 1, 0, 33), ("t", 2, 0, 33)]


def test_nothing_written_is_nothing_sent(cluster: Cluster, log: Log) -> None:
    assert produce(cluster, "t", 0, []) == -1
    assert log.requests == 0


def test_a_record_larger_than_a_batch_goes_alone(cluster: Cluster, log: Log) -> None:
    large = (None, b"x" * 5000, (), 1)
    produce(cluster, "t", 0, [RECORDS[0], large, RECORDS[1]], batch_bytes=100)
    assert log.values["t", 0] == [b"value 0", b"x" * 5000, b"value 1"]


def test_without_acknowledgements_nothing_is_waited_for(cluster: Cluster, broker: ScriptedBroker, log: Log) -> None:
    assert produce(cluster, "t", 0, RECORDS, acks=0, batch_bytes=500) == -1
    # The connection answers in order: when it answers this, it has read all of the above.
    cluster.connection(0).request(Api.METADATA, _nothing())
    assert log.values["t", 0] == _values(RECORDS)


@pytest.mark.parametrize("nth", range(6))
@pytest.mark.parametrize("fault", [Hangup, ConnectionError, lambda: Error.not_leader_or_follower])
def test_an_idempotent_writer_loses_doubles_and_reorders_nothing(
    cluster: Cluster, log: Log, nth: int, fault: Callable[[], Error] | type[Exception]
) -> None:
    log.faults[nth] = fault
    produce(cluster, "t", 0, RECORDS, idempotent=True, batch_bytes=400)
    assert log.values["t", 0] == _values(RECORDS)
    assert log.requests > 7


def test_a_writer_without_sequence_numbers_still_loses_nothing(cluster: Cluster, log: Log) -> None:
    log.faults = {1: Hangup, 5: ConnectionError, 7: lambda: Error.leader_not_available}
    produce(cluster, "t", 0, RECORDS, batch_bytes=400)
    assert set(_values(RECORDS)) == set(log.values["t", 0])


def test_batches_follow_a_leader_that_moves(cluster: Cluster, broker: ScriptedBroker, log: Log) -> None:
    moved = threading.Event()

    def first(request: Request) -> object:
        if log.requests >= 3:
            moved.set()
            return produced({("t", 0): (Error.not_leader_or_follower, -1)})
        return log(request)

    with ScriptedBroker({Api.PRODUCE: log}) as other:
        ports = {0: broker.port, 1: other.port}
        for one in (broker, other):
            one.handlers[Api.METADATA] = lambda _: metadata(ports, {"t": [1 if moved.is_set() else 0]})
        broker.handlers[Api.PRODUCE] = first
        produce(cluster, "t", 0, RECORDS, batch_bytes=400, idempotent=True)
        assert other.count(Api.PRODUCE) > 0
    assert log.values["t", 0] == _values(RECORDS)


def test_a_refused_batch_names_its_partition_and_what_to_do(cluster: Cluster, log: Log) -> None:
    log.faults[0] = lambda: Error.message_too_large
    with pytest.raises(KafkaError, match=r"MESSAGE_TOO_LARGE: partition 0 of 't': .*max\.message\.bytes"):
        produce(cluster, "t", 0, RECORDS)


def test_an_attempt_is_given_up_at_its_timeout(cluster: Cluster, log: Log) -> None:
    log.faults = dict.fromkeys(range(10**5), lambda: Error.not_enough_replicas)
    with pytest.raises(KafkaError, match=r"min\.insync\.replicas"):
        produce(cluster, "t", 0, RECORDS, timeout=0.1)


def test_an_idempotent_writer_without_acknowledgements_is_refused(cluster: Cluster) -> None:
    with pytest.raises(KafkaError, match="needs acks=all"):
        Writer(cluster, idempotent=True, acks=1)


def test_a_broker_too_old_for_our_requests_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "kafka_classic.wire.bodies.advertised", lambda: {Api.PRODUCE: (0, 7), Api.METADATA: (0, 9), Api.FETCH: (0, 10)}
    )
    with pytest.raises(KafkaError, match=r"does not serve PRODUCE v8: use a broker of Kafka 2\.4 or newer"):
        produce(cluster, "t", 0, RECORDS)


def _nothing() -> object:
    from kio.schema.metadata.v13 import MetadataRequest

    return MetadataRequest(topics=(), include_topic_authorized_operations=False)
