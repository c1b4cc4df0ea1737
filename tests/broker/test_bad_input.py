"""Bad input: each gets Kafka's error code or a closed connection, memory stays bounded, others notice nothing."""

from __future__ import annotations

import random
import resource
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.records.batch import HEADER_SIZE, seal
from kafka_classic.records.codecs import Codec, compress
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_response, write_request
from tests.broker.raw import Raw, batch, fetch, fetch_frame, framed, header, produce, produce_frame

MB = 1 << 20


@pytest.fixture
def address(kafka_cluster: LocalCluster) -> str:
    return kafka_cluster.brokers[0].address


@pytest.fixture
def witness(address: str, kafka_topic: str) -> Iterator[None]:
    """A client that was there before the bad one, and must notice nothing."""
    with Raw(address) as other:
        assert produce(other, kafka_topic, batch(b"before"))[0] == 0
        yield
        error, offset = produce(other, kafka_topic, batch(b"after"))
        assert error == 0
        assert offset >= 1


def memory(cluster: LocalCluster) -> int:
    return cluster.brokers[0].rss_bytes()


@pytest.mark.usefixtures("witness")
class TestTheFrame:
    @pytest.mark.parametrize("seed", range(5))
    def test_garbage_closes_the_connection(self, address: str, seed: int) -> None:
        with Raw(address) as raw:
            raw.send(b"\x7f" + random.Random(seed).randbytes(1000))
            assert raw.is_closed()

    def test_http_closes_the_connection(self, address: str) -> None:
        with Raw(address) as raw:
            raw.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert raw.is_closed()

    @pytest.mark.parametrize("size", [2**31 - 1, 2 * 10**9, 104_857_601, -1, -(2**31), 0, 7])
    def test_a_length_that_no_request_has_closes_the_connection(self, address: str, size: int) -> None:
        with Raw(address) as raw:
            raw.send(struct.pack(">i", size))
            assert raw.is_closed()

    def test_a_large_length_alone_takes_no_memory(self, address: str, kafka_cluster: LocalCluster) -> None:
        before = memory(kafka_cluster)
        raws = [Raw(address) for _ in range(20)]
        for raw in raws:
            raw.send(struct.pack(">i", 100 * MB) + header(Api.PRODUCE, 7))
        with Raw(address) as other:  # answered after the broker has read the others' lengths
            other.call(Api.API_VERSIONS, 0, _api_versions())
        assert memory(kafka_cluster) - before < 60 * MB
        for raw in raws:
            raw.sock.close()

    def test_a_frame_cut_off_by_a_close_is_forgotten(self, address: str, kafka_topic: str) -> None:
        whole = produce_frame(kafka_topic, batch(b"never"))
        for cut in (1, 3, 4, 10, len(whole) // 2, len(whole) - 1):
            with Raw(address) as raw:
                raw.send(whole[:cut])
        with Raw(address) as raw:
            _, _, records = fetch(raw, kafka_topic, 0)
            assert b"never" not in records

    @pytest.mark.parametrize(("api", "version"), [(999, 0), (-1, 0), (Api.METADATA, 99), (Api.PRODUCE, 0), (1, -5)])
    def test_an_unknown_api_or_version_closes_the_connection(self, address: str, api: int, version: int) -> None:
        with Raw(address) as raw:
            raw.send(framed(header(api, version) + bytes(20)))
            assert raw.is_closed()

    def test_an_unknown_version_of_api_versions_is_answered_with_what_is_served(self, address: str) -> None:
        with Raw(address) as raw:
            raw.send(framed(header(Api.API_VERSIONS, 99) + bytes(4)))
            _, answer = read_response(Api.API_VERSIONS, 0, raw.frame())
            assert answer.error_code is Error.unsupported_version
            assert len(answer.api_keys) > 10
            raw.call(Api.API_VERSIONS, 3, _api_versions())  # and the connection lives

    def test_a_request_whose_body_is_garbage_closes_the_connection(self, address: str) -> None:
        rng = random.Random(5)
        for api, version in [(Api.METADATA, 9), (Api.FETCH, 11), (Api.PRODUCE, 7), (Api.LIST_OFFSETS, 5), (19, 5)]:
            with Raw(address) as raw:
                raw.send(framed(header(api, version) + rng.randbytes(200)))
                assert raw.is_closed()

    def test_an_array_that_claims_two_billion_elements_takes_no_memory(
        self, address: str, kafka_cluster: LocalCluster
    ) -> None:
        before = memory(kafka_cluster)
        for api, version in [(Api.METADATA, 5), (Api.LIST_OFFSETS, 2), (Api.DELETE_RECORDS, 0)]:
            with Raw(address) as raw:
                raw.send(framed(header(api, version) + struct.pack(">i", 2**31 - 1) + bytes(50)))
                assert raw.is_closed()
        assert memory(kafka_cluster) - before < 20 * MB


@pytest.mark.usefixtures("witness")
class TestTheBatch:
    def refused(self, address: str, topic: str, records: bytes) -> Error:
        with Raw(address) as raw:
            error, _ = produce(raw, topic, records)
            # A good one on the same connection is taken, and nothing of the bad one was kept.
            assert produce(raw, topic, batch(b"good"))[0] == 0
            _, _, found = fetch(raw, topic, 0)
            assert b"EVIL" not in found
            return Error(error)

    def test_a_wrong_crc_is_corrupt(self, address: str, kafka_topic: str) -> None:
        bad = bytearray(batch(b"EVIL"))
        bad[-1] ^= 1
        assert self.refused(address, kafka_topic, bytes(bad)) is Error.corrupt_message

    @pytest.mark.parametrize("change", [-1000, -1, 1, 1000, 2**30])
    def test_a_length_that_lies_is_corrupt(self, address: str, kafka_topic: str, change: int) -> None:
        bad = bytearray(batch(b"EVIL"))
        (length,) = struct.unpack_from(">i", bad, 8)
        struct.pack_into(">i", bad, 8, length + change)
        assert self.refused(address, kafka_topic, bytes(bad)) is Error.corrupt_message

    @pytest.mark.parametrize(
        "lie",
        [
            {"record_count": 5},
            {"record_count": 5, "last_offset_delta": 4},
            {"record_count": 0},
            {"record_count": 0, "last_offset_delta": -1},
            {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
            {"last_offset_delta": 2**31 - 1},
        ],
    )
    def test_counts_that_lie_are_invalid(self, address: str, kafka_topic: str, lie: dict[str, int]) -> None:
        bad = bytearray(batch(b"EVIL", b"EVIL 2"))
        seal(bad, **lie)
        assert self.refused(address, kafka_topic, bytes(bad)) is Error.invalid_record

    def test_a_lie_on_the_fast_path_is_found_too(self, address: str, kafka_topic: str) -> None:
        bad = bytearray(batch(b"EVIL", b"EVIL 2"))
        seal(bad, record_count=7, last_offset_delta=6)
        torn = bytearray(batch(b"EVIL"))
        torn[-1] ^= 1
        with Raw(address) as raw:
            for _ in range(3):  # the connection's requests are recognised by their prefix from the second on
                assert produce(raw, kafka_topic, batch(b"good"))[0] == 0
                assert produce(raw, kafka_topic, bytes(bad))[0] == Error.invalid_record.value
                assert produce(raw, kafka_topic, bytes(torn))[0] == Error.corrupt_message.value

    @pytest.mark.parametrize("magic", [0, 1])
    def test_an_old_message_format_is_not_supported(self, address: str, kafka_topic: str, magic: int) -> None:
        bad = bytearray(batch(b"EVIL"))
        bad[16] = magic
        assert self.refused(address, kafka_topic, bytes(bad)) is Error.unsupported_for_message_format

    def test_no_batch_at_all_is_invalid(self, address: str, kafka_topic: str) -> None:
        assert self.refused(address, kafka_topic, b"") is Error.invalid_record

    def test_two_batches_in_one_partition_are_invalid(self, address: str, kafka_topic: str) -> None:
        assert self.refused(address, kafka_topic, batch(b"EVIL") + batch(b"EVIL")) is Error.invalid_record

    def test_control_and_transactional_batches_are_invalid(self, address: str, kafka_topic: str) -> None:
        assert self.refused(address, kafka_topic, batch(b"EVIL", control=True)) is Error.invalid_record
        assert self.refused(address, kafka_topic, batch(b"EVIL", transactional=True)) is Error.invalid_record

    def test_a_batch_over_the_limit_is_too_large(self, address: str, kafka_topic: str) -> None:
        assert self.refused(address, kafka_topic, batch(b"EVIL" * 300_000)) is Error.message_too_large

    def test_a_timestamp_far_in_the_future_is_refused(self, address: str, kafka_topic: str) -> None:
        from kafka_classic.records.encode import encode_batch

        late = encode_batch([(None, b"EVIL", (), 4_000_000_000_000)])
        assert self.refused(address, kafka_topic, late) is Error.invalid_timestamp

    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
    def test_a_decompression_bomb_does_not_swell_the_broker(
        self, address: str, kafka_topic: str, kafka_cluster: LocalCluster, codec: Codec
    ) -> None:
        _set_config(address, kafka_topic, "compression.type", "gzip" if codec is not Codec.GZIP else "lz4")
        _set_config(address, kafka_topic, "max.message.bytes", str(50 * MB))
        bomb = compress(codec, bytes(300 * MB))
        head = bytearray(batch(b"x"))[:HEADER_SIZE]
        bad = head + bomb
        struct.pack_into(">i", bad, 8, len(bad) - 12)
        seal(bad, attributes=int(codec))
        before = memory(kafka_cluster)
        with Raw(address) as raw:
            error, _ = produce(raw, kafka_topic, bytes(bad))
        assert Error(error) in (Error.invalid_record, Error.corrupt_message)
        peak_growth = memory(kafka_cluster) - before
        assert peak_growth < 200 * MB


@pytest.mark.usefixtures("witness")
class TestNames:
    @pytest.mark.parametrize("name", ["../evil", "..", ".", "a/b", "", "x" * 250, "a\0b", "ü", "a b"])
    def test_a_name_that_is_no_topic_name_is_refused_and_makes_no_folder(
        self, address: str, kafka_cluster: LocalCluster, name: str
    ) -> None:
        folder = kafka_cluster.brokers[0].data_dir
        before = {p.name for p in folder.parent.iterdir()}
        with Raw(address) as raw:
            answer = raw.call(Api.METADATA, 9, _metadata(name))
            assert answer.topics[0].error_code is Error.invalid_topic_exception
            error, _ = produce(raw, name, batch(b"x"))
            assert Error(error) is Error.unknown_topic_or_partition
            assert fetch(raw, name, 0)[0] == Error.unknown_topic_or_partition.value
        assert {p.name for p in folder.parent.iterdir()} == before


@pytest.mark.usefixtures("witness")
class TestSlowAndSilentClients:
    def test_five_thousand_idle_connections_cost_little(self, address: str, kafka_cluster: LocalCluster) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 6000:
            pytest.skip(f"only {hard} open files are allowed here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 6000), hard))
        before = memory(kafka_cluster)
        raws = [Raw(address) for _ in range(5000)]
        try:
            raws[-1].call(Api.API_VERSIONS, 0, _api_versions())
            raws[0].call(Api.API_VERSIONS, 0, _api_versions())
            assert memory(kafka_cluster) - before < 50 * MB
        finally:
            for raw in raws:
                raw.sock.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_a_request_that_comes_a_byte_at_a_time_is_answered(self, address: str, kafka_topic: str) -> None:
        with Raw(address) as raw:
            for byte in produce_frame(kafka_topic, batch(b"slow but sound")):
                raw.send(bytes([byte]))
            raw.send(produce_frame(kafka_topic, batch(b"next")))
            assert raw.frame()
            assert raw.frame()
            assert b"slow but sound" in fetch(raw, kafka_topic, 0)[2]

    def test_a_large_request_in_small_pieces_is_answered(self, address: str, kafka_topic: str) -> None:
        frame = produce_frame(kafka_topic, batch(b"v" * 700_000))
        with Raw(address) as raw:
            for at in range(0, len(frame), 9973):
                raw.send(frame[at : at + 9973])
            assert struct.unpack_from(">h", raw.frame(), 4 + 4 + 2 + len(kafka_topic) + 8)[0] == 0

    def test_a_client_that_never_reads_does_not_swell_the_broker(
        self, address: str, kafka_topic: str, kafka_cluster: LocalCluster
    ) -> None:
        with Raw(address) as raw:
            for _ in range(5):
                assert produce(raw, kafka_topic, batch(b"v" * 900_000))[0] == 0
        before = memory(kafka_cluster)
        deaf = Raw(address)
        deaf.sock.settimeout(1.0)
        asked = 0
        try:
            while asked < 500_000:  # each asks for 4 MB that nobody takes
                deaf.send(fetch_frame(kafka_topic, 0, partition_max_bytes=8 * MB) * 50)
                asked += 50
        except TimeoutError:
            pass  # the broker stopped reading, as it should
        assert asked < 500_000
        with Raw(address) as other:
            assert produce(other, kafka_topic, batch(b"in between"))[0] == 0
        assert memory(kafka_cluster) - before < 40 * MB
        deaf.sock.close()

    def test_a_producer_that_never_reads_its_answers_is_not_read_on(
        self, address: str, kafka_topic: str, kafka_cluster: LocalCluster
    ) -> None:
        before = memory(kafka_cluster)
        deaf = Raw(address)
        deaf.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sock.settimeout(1.0)
        frames = produce_frame(kafka_topic, batch(b"x")) * 500
        sent = 0
        try:
            while sent < 200 * MB:
                deaf.send(frames)
                sent += len(frames)
        except TimeoutError:
            pass
        assert sent < 200 * MB
        assert memory(kafka_cluster) - before < 40 * MB
        deaf.sock.close()

    def test_others_are_served_while_one_keeps_the_broker_busy(self, address: str, kafka_topic: str) -> None:
        stop = threading.Event()
        frames = produce_frame(kafka_topic, batch(b"x" * 200)) * 200

        def busy() -> None:
            with Raw(address) as raw:
                while not stop.is_set():
                    raw.send(frames)
                    for _ in range(200):
                        raw.frame()

        threads = [threading.Thread(target=busy) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            with Raw(address) as raw:
                for _ in range(200):
                    assert produce(raw, kafka_topic, batch(b"y"))[0] == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def test_a_fetch_that_waits_is_dropped_with_its_connection(self, address: str, kafka_topic: str) -> None:
        with Raw(address) as raw:
            _, end, _ = fetch(raw, kafka_topic, 0)
            for _ in range(20):
                with Raw(address) as waiting:
                    waiting.send(fetch_frame(kafka_topic, end, max_wait_ms=60_000))
            assert produce(raw, kafka_topic, batch(b"wakes"))[0] == 0
            until(lambda: b"wakes" in fetch(raw, kafka_topic, end)[2])


def _api_versions() -> object:
    from kio.schema.api_versions.v4.request import ApiVersionsRequest

    return ApiVersionsRequest(client_software_name="raw", client_software_version="1")


def _metadata(name: str) -> object:
    from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
    from kio.schema.types import TopicName

    topic = MetadataRequestTopic(topic_id=None, name=TopicName(name))
    return MetadataRequest(topics=(topic,), include_topic_authorized_operations=False)


def _set_config(address: str, topic: str, name: str, value: str) -> None:
    from kio.schema.incremental_alter_configs.v1.request import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )
    from kio.static.primitive import i8

    change = AlterableConfig(name=name, config_operation=i8(0), value=value)
    resource = AlterConfigsResource(resource_type=i8(2), resource_name=topic, configs=(change,))
    with Raw(address) as raw:
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        raw.send(write_request(Api.INCREMENTAL_ALTER_CONFIGS, 1, 7, "raw", request))
        _, answer = read_response(Api.INCREMENTAL_ALTER_CONFIGS, 1, raw.frame())
        assert answer.responses[0].error_code is Error.none
