"""Measures what a request costs on the wire, side by side with kio's own reader and writer.

    python -P bench/wire.py [--json] [--quick] [--repeats 31]

One core. Each figure is µs of CPU a call, the median over the repeats, so that a busy machine spoils it less; ours and
kio's take turns, so that what spoils one spoils the other.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

from kio.serial import entity_reader, entity_writer

from bench.load import results
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import RequestHeader, read_request, read_request_header, write_request, write_response
from kafka_classic.wire.errors import Error
from kafka_classic.wire.fetch import PartitionOut, read_fetch, write_fetch_response
from kafka_classic.wire.produce import ProduceShape, read_produce, write_produce_response

FRAME = struct.Struct(">iIi")
WAIT = timedelta(milliseconds=500)


class Case(NamedTuple):
    """One piece of work, ours and kio's."""

    name: str
    ours: Callable[[], object]
    kios: Callable[[], object]


def module(api: Api, version: int, kind: str) -> Any:
    """kio's module of a message, with all of its classes."""
    return __import__(f"kio.schema.{api.name.lower()}.v{version}.{kind}", fromlist=["x"])


def kio_writer(message: Any) -> Callable[[], object]:
    """Write a message as kio does."""
    write = entity_writer(type(message))

    def work() -> bytes:
        out = io.BytesIO()
        write(out, message)
        return out.getvalue()

    return work


def produce_cases(version: int, size: int) -> Iterator[Case]:
    """A request of one partition: parsed, recognised and answered, and answered from scratch."""
    m, r = module(Api.PRODUCE, version, "request"), module(Api.PRODUCE, version, "response")
    part = m.PartitionProduceData(index=3, records=bytes(size))
    request = m.ProduceRequest(
        acks=1, timeout=WAIT, topic_data=(m.TopicProduceData(name="page-views", partition_data=(part,)),)
    )
    frame = write_request(Api.PRODUCE, version, 7, "rdkafka", request)
    buf = bytearray(frame)
    end = len(buf)
    header = read_request_header(buf, 4, end)
    shape = ProduceShape.of(buf, 4, end, header, read_produce(buf, header.body_at, end, version))
    assert shape is not None
    kio_read = entity_reader(m.ProduceRequest)
    view = memoryview(buf).toreadonly()
    yield Case(
        f"produce v{version} read, {size} B",
        partial(read_produce, buf, header.body_at, end, version),
        partial(kio_read, view, header.body_at),
    )

    def again() -> bytes | None:
        length, key_version, correlation_id = FRAME.unpack_from(buf, 0)
        if key_version == shape.key_version and buf.startswith(shape.prefix, 12):
            found = shape.records_at(buf, 12 + len(shape.prefix), 4 + length)
            if found is not None:
                return shape.pack_ok(correlation_id, 99, -1, 0)
        return None

    assert again() is not None
    fields = {"record_errors": ()} if version >= 8 else {}
    result = r.PartitionProduceResponse(index=3, error_code=Error.none, base_offset=99, **fields)
    response = r.ProduceResponse(responses=(r.TopicProduceResponse(name="page-views", partition_responses=(result,)),))
    write = kio_writer(response)

    def kio_again() -> object:
        kio_read(view, header.body_at)
        return write()

    yield Case(f"produce v{version} recognise + answer", again, kio_again)
    rows = [("page-views", [(3, 0, 99, -1, 0, None)])]
    yield Case(f"produce v{version} write response", partial(write_produce_response, version, 7, rows), write)


def fetch_cases(version: int, partitions: int) -> Iterator[Case]:
    """A request for some partitions of one topic, and its response."""
    m, r = module(Api.FETCH, version, "request"), module(Api.FETCH, version, "response")
    rows = tuple(m.FetchPartition(partition=i, fetch_offset=9, partition_max_bytes=1 << 20) for i in range(partitions))
    topic = m.FetchTopic(topic="page-views", partitions=rows)
    request = m.FetchRequest(
        replica_id=-1,
        max_wait=WAIT,
        min_bytes=1,
        topics=(topic,),
        **({"forgotten_topics_data": ()} if version >= 7 else {}),
    )
    frame = write_request(Api.FETCH, version, 7, "rdkafka", request)
    header = read_request_header(frame, 4)
    many = f"{partitions} partition{'s' if partitions > 1 else ''}"
    yield Case(
        f"fetch v{version} read, {many}",
        partial(read_fetch, frame, header.body_at, len(frame), version),
        partial(entity_reader(m.FetchRequest), frame, header.body_at),
    )
    outs = [PartitionOut(i, 0, 99, 99, 0, 1 << 20) for i in range(partitions)]
    data = tuple(
        r.PartitionData(
            partition_index=i,
            error_code=Error.none,
            high_watermark=99,
            last_stable_offset=99,
            aborted_transactions=None,
            records=b"",  # kio would copy them: leave that out of it
        )
        for i in range(partitions)
    )
    fields = {"error_code": Error.none} if version >= 7 else {}
    answer = r.FetchResponse(
        throttle_time=timedelta(0),
        responses=(r.FetchableTopicResponse(topic="page-views", partitions=data),),
        **fields,
    )
    yield Case(
        f"fetch v{version} write response, {many}",
        partial(write_fetch_response, version, 7, 0, 0, 0, [("page-views", outs)]),
        kio_writer(answer),
    )


def body_cases() -> Iterator[Case]:
    """What every other request goes through, shown on Metadata: header, request and response."""
    for version in (4, 12):
        newest, m = module(Api.METADATA, 13, "request"), module(Api.METADATA, version, "request")
        topic = newest.MetadataRequestTopic(topic_id=None, name="page-views")
        request = newest.MetadataRequest(topics=(topic,), include_topic_authorized_operations=False)
        frame = write_request(Api.METADATA, version, 7, "rdkafka", request)[4:]
        header = read_request_header(frame)
        if version == 4:
            schema: Any = __import__("kio.schema.request_header.v1.header", fromlist=["x"])
            kio_header = entity_reader(schema.RequestHeader)
            yield Case("request header", partial(read_request_header, frame), partial(kio_header, frame, 0))
        yield Case(
            f"metadata v{version} read",
            partial(read_request, header, frame),
            partial(entity_reader(m.MetadataRequest), frame, header.body_at),
        )
        yield Case(
            f"metadata v{version} write response, 10 partitions",
            partial(write_response, RequestHeader(Api.METADATA, version, 7, None, 0), metadata_response(13)),
            kio_writer(metadata_response(version)),
        )


def metadata_response(version: int) -> Any:
    """One broker and one topic of ten partitions, in the classes of a version."""
    r = module(Api.METADATA, version, "response")
    partitions = tuple(
        r.MetadataResponsePartition(
            error_code=Error.none, partition_index=i, leader_id=0, replica_nodes=(0,), isr_nodes=(0,)
        )
        for i in range(10)
    )
    fields: dict[str, Any] = {"topic_id": None} if version >= 10 else {}
    topic = r.MetadataResponseTopic(error_code=Error.none, name="page-views", partitions=partitions, **fields)
    fields = {"error_code": Error.none} if version >= 13 else {}
    broker = r.MetadataResponseBroker(node_id=0, host="127.0.0.1", port=9092)
    return r.MetadataResponse(throttle_time=timedelta(0), brokers=(broker,), topics=(topic,), **fields)


def measure(repeats: int, case: Case) -> tuple[float, float]:
    """µs of CPU a call, ours and kio's."""
    spent: tuple[list[float], list[float]] = ([], [])
    case.ours()
    began = time.process_time()
    for _ in range(20):
        case.kios()
    calls = max(20, int(0.004 / max((time.process_time() - began) / 20, 1e-7)))  # about 4 ms a repeat
    for _ in range(repeats):
        for work, times in zip((case.ours, case.kios), spent, strict=True):
            began = time.process_time()
            for _ in range(calls):
                work()
            times.append((time.process_time() - began) / calls)
    ours, kios = (statistics.median(times) * 1e6 for times in spent)
    return ours, kios


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--repeats", type=int, default=31)
    results.add_option(parser)
    asked = parser.parse_args()
    cases: list[Case] = []
    for version in (7, 9, 12):
        cases += produce_cases(version, 300)
    cases += list(produce_cases(9, 1 << 20))[:1]
    for version in (4, 11, 12):
        for partitions in (1, 100):
            cases += fetch_cases(version, partitions)
    cases += body_cases()
    rows = {case.name: measure(7 if asked.quick else asked.repeats, case) for case in cases}
    subjects = ("kafka-classic", "kio")
    lines = [
        results.row("wire", name, us, "µs", subject)
        for name, both in rows.items()
        for subject, us in zip(subjects, both, strict=True)
    ]
    results.keep_run(lines, asked)
    if asked.json:
        print(json.dumps({name: {"ours": ours, "kio": kios} for name, (ours, kios) in rows.items()}, indent=1))
        return
    print(f"{'µs of CPU a call':44}{'ours':>9}{'kio':>9}")
    for name, (ours, kios) in rows.items():
        print(f"{name:44}{ours:9.2f}{kios:9.2f}")


if __name__ == "__main__":
    main()
