"""Bodies of every API and version go to the newest class and back, as kio reads and writes them."""

import dataclasses
import subprocess
import sys
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.fetch.v18.request import FetchRequest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.metadata.v13.response import MetadataResponse, MetadataResponseTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64Timedelta

from kafka_classic.wire import readers
from kafka_classic.wire.apis import SERVED, Api, advertised, is_flexible, model_version
from kafka_classic.wire.bodies import (
    MAY_GO_ON,
    RequestHeader,
    read_request,
    read_request_header,
    read_response,
    unsupported_api_versions,
    write_request,
    write_response,
)
from kafka_classic.wire.errors import Error, MalformedRequest, UnsupportedVersion
from kafka_classic.wire.schema import fields_of, message_class
from tests.wire.messages import (
    EVERY,
    NAMES,
    few,
    kio_bytes,
    kio_read,
    messages,
    request_frame,
    response_frame,
)

# What the newest version no longer says, so that it cannot come back.
FORGOTTEN = {
    "include_cluster_authorized_operations": False,
    "cluster_authorized_operations": i32(-(2**31)),
    "retention_time": i64Timedelta.parse(timedelta(milliseconds=-1)),
}


def _without_forgotten(message: Any) -> Any:
    names = {field.name for field in dataclasses.fields(message)}
    newest = model_version(Api(message.__api_key__), int(message.__version__))
    lost = {name: value for name, value in FORGOTTEN.items() if name in names}
    return dataclasses.replace(message, **lost) if lost and message.__version__ != newest else message


def _says_the_same(older: Any, newer: Any) -> bool:
    """Whether all that both classes can say is equal; what the older cannot say as None may be empty."""
    if isinstance(older, tuple) and isinstance(newer, tuple):
        return len(older) == len(newer) and all(map(_says_the_same, older, newer))
    if dataclasses.is_dataclass(older):
        both = {field.name for field in fields_of(type(older))} & {field.name for field in fields_of(type(newer))}
        return all(_says_the_same(getattr(older, name), getattr(newer, name)) for name in both)
    return bool(older == newer) or (newer is None and older in ("", ()))


@pytest.mark.parametrize(("api", "version"), EVERY, ids=NAMES)
@given(data=st.data())
@few
def test_a_request_goes_to_the_newest_class_and_back(api: Api, version: int, data: st.DataObject) -> None:
    message = _without_forgotten(data.draw(messages(api, version, "request")))
    body = kio_bytes(message)
    _reads_as_kio_does(message, body)
    frame = request_frame(api, version, body)
    header = read_request_header(frame)
    assert header[:4] == (api, version, 7, "test")
    newest = read_request(header, frame)
    assert type(newest) is message_class(api, model_version(api, version), "request")
    again = write_request(api, version, 7, "test", newest)
    assert again[4:] == frame
    assert int.from_bytes(again[:4], "big") == len(frame)
    # Cut anywhere, it is refused, and borrows no bytes from the frame behind it; nor may it go on.
    for cut in range(header.body_at, len(frame), 1 + len(frame) // 40):
        with pytest.raises(MalformedRequest):
            read_request(header, frame[:cut])
        with pytest.raises(MalformedRequest):
            read_request(header, frame, cut)
    if api in MAY_GO_ON:
        assert read_request(header, frame + bytes(3)) == newest
    else:
        with pytest.raises(MalformedRequest):
            read_request(header, frame + b"\0")


def test_all_topics_as_librdkafka_asks_for_them_with_three_bytes_too_many() -> None:
    frame = request_frame(Api.METADATA, 13, b"\0\0\0\0\1\0\0")
    assert read_request(read_request_header(frame), frame).topics is None


@pytest.mark.parametrize(("api", "version"), EVERY, ids=NAMES)
@given(data=st.data())
@few
def test_a_response_goes_to_the_newest_class_and_back(api: Api, version: int, data: st.DataObject) -> None:
    message = _without_forgotten(data.draw(messages(api, version, "response")))
    body = kio_bytes(message)
    _reads_as_kio_does(message, body)
    frame = response_frame(api, version, body)
    correlation_id, newest = read_response(api, version, frame)
    assert correlation_id == 7
    assert type(newest) is message_class(api, model_version(api, version), "response")
    assert write_response(RequestHeader(api, version, 7, None, 0), newest)[4:] == frame


def _reads_as_kio_does(message: Any, raw: bytes) -> None:
    cls: Any = type(message)
    theirs = kio_read(cls, raw)
    for buffer in (raw, bytearray(raw), memoryview(bytearray(raw))):
        assert readers.entity_reader(cls, cls)(buffer, 0, len(raw), [1000]) == (theirs, len(raw))


@pytest.mark.parametrize(("api", "version"), EVERY, ids=NAMES)
@given(data=st.data())
@few
def test_the_newest_response_is_written_as_the_older_version_can_say_it(
    api: Api, version: int, data: st.DataObject
) -> None:
    newest = data.draw(messages(api, model_version(api, version), "response"))
    frame = write_response(RequestHeader(api, version, 7, None, 0), newest)[4:]
    older = kio_read(message_class(api, version, "response"), frame[len(response_frame(api, version, b"")) :])
    assert _says_the_same(older, newest)


@pytest.mark.parametrize(("api", "version"), [pair for pair in EVERY if is_flexible(*pair)])
@given(data=st.data())
@few
def test_unknown_tagged_fields_are_skipped(api: Api, version: int, data: st.DataObject) -> None:
    message = data.draw(messages(api, version, "request"))
    defaults = {field.name: field.default for field in fields_of(type(message)) if field.tag is not None}
    message = dataclasses.replace(message, **defaults)
    raw = kio_bytes(message)
    assert raw[-1:] == b"\0"  # the tag buffer of the request itself
    with_tags = request_frame(api, version, raw[:-1] + b"\2\x63\3abc\xe4\1\0")
    with_header_tag = request_frame(api, version, raw).replace(b"test\0", b"test\1\x63\1x", 1)
    plain = request_frame(api, version, raw)
    expected = read_request(read_request_header(plain), plain)
    for frame in (with_tags, with_header_tag):
        assert read_request(read_request_header(frame), frame) == expected


def test_unknown_tagged_fields_inside_an_array_are_skipped() -> None:
    body = b"\2" + bytes(16) + b"\2t" + b"\1\x63\2ab" + b"\1\0" + b"\0"
    frame = request_frame(Api.METADATA, 13, body)
    request = read_request(read_request_header(frame), frame)
    assert request.topics[0].name == "t"
    assert request.allow_auto_topic_creation is True


def test_a_known_tagged_field_that_lies_about_its_length_is_refused() -> None:
    raw = kio_bytes(
        FetchRequest(
            cluster_id="abc",
            max_wait=i32Timedelta.parse(timedelta(0)),
            min_bytes=i32(1),
            topics=(),
            forgotten_topics_data=(),
        )
    )
    assert raw.endswith(b"\1\0\4\4abc")
    for lie in (b"\1\0\3\4abc", b"\1\0\5\4abcd", b"\1\0\x7f\4abc"):
        frame = request_frame(Api.FETCH, 18, raw[:-7] + lie)
        with pytest.raises(MalformedRequest):
            read_request(read_request_header(frame), frame)


def test_an_empty_list_of_topics_in_metadata_0_asks_for_all_of_them() -> None:
    for version, expected in ((0, None), (1, ())):
        frame = request_frame(Api.METADATA, version, bytes(4))
        assert read_request(read_request_header(frame), frame).topics == expected
    all_topics = MetadataRequest(topics=None, include_topic_authorized_operations=False)
    assert write_request(Api.METADATA, 0, 7, "test", all_topics)[4:] == request_frame(Api.METADATA, 0, bytes(4))


def test_delete_topics_by_name_becomes_structs_and_back() -> None:
    request = DeleteTopicsRequest(
        topics=(DeleteTopicState(name=TopicName("a"), topic_id=None),),
        timeout=i32Timedelta.parse(timedelta(seconds=1)),
    )
    for version in range(1, 7):
        frame = write_request(Api.DELETE_TOPICS, version, 7, None, request)[4:]
        header = read_request_header(frame)
        assert header.client_id is None
        assert read_request(header, frame) == request


def test_one_coordinator_becomes_a_list_of_them_and_back() -> None:
    request = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=("group",))
    one = Coordinator(
        key="",
        node_id=BrokerId(3),
        host="h",
        port=i32(9092),
        error_code=Error.none,
        error_message=None,
    )
    response = FindCoordinatorResponse(throttle_time=i32Timedelta.parse(timedelta(0)), coordinators=(one,))
    for version in range(7):
        frame = write_request(Api.FIND_COORDINATOR, version, 7, None, request)[4:]
        assert read_request(read_request_header(frame), frame) == request
        frame = write_response(RequestHeader(Api.FIND_COORDINATOR, version, 7, None, 0), response)[4:]
        assert read_response(Api.FIND_COORDINATOR, version, frame) == (7, response)
    nobody = FindCoordinatorResponse(throttle_time=i32Timedelta.parse(timedelta(0)), coordinators=())
    frame = write_response(RequestHeader(Api.FIND_COORDINATOR, 3, 7, None, 0), nobody)[4:]
    [answer] = read_response(Api.FIND_COORDINATOR, 3, frame)[1].coordinators
    assert answer.error_code is Error.coordinator_not_available


def test_a_topic_without_a_name_is_answered_with_an_empty_one_where_none_cannot_be_said() -> None:
    topic = MetadataResponseTopic(
        error_code=Error.unknown_topic_id, name=None, topic_id=UUID(int=5), is_internal=False, partitions=()
    )
    response = MetadataResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)),
        brokers=(),
        controller_id=BrokerId(1),
        topics=(topic,),
        error_code=Error.none,
    )
    names = []
    for version in range(14):
        frame = write_response(RequestHeader(Api.METADATA, version, 7, None, 0), response)[4:]
        names.append(read_response(Api.METADATA, version, frame)[1].topics[0].name)
    assert names == [""] * 12 + [None] * 2


def test_a_class_that_knows_only_topic_ids_is_not_written_in_a_version_that_has_only_names() -> None:
    request = FetchRequest(
        max_wait=i32Timedelta.parse(timedelta(0)), min_bytes=i32(1), topics=(), forgotten_topics_data=()
    )
    with pytest.raises(TypeError, match="needs topic"):
        write_request(Api.FETCH, 12, 7, None, request)


def test_an_error_code_of_a_newer_broker_is_read_as_unknown() -> None:
    body = (12345).to_bytes(2, "big") + bytes(4)
    assert read_response(Api.API_VERSIONS, 0, (7).to_bytes(4, "big") + body)[1].error_code is Error.unknown_server_error


def test_apis_and_versions_that_are_not_served_are_named_with_the_correlation_id() -> None:
    for api_key, version in ((0, 2), (0, 14), (1, 3), (18, 5), (18, -1), (3, 99), (999, 0), (-1, 0), (22, 6)):
        frame = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + b"\0\0\0\x2a"
        with pytest.raises(UnsupportedVersion) as caught:
            read_request_header(frame)
        assert (caught.value.api_key, caught.value.api_version) == (api_key, version)
        assert caught.value.correlation_id == 42
        assert caught.value.code is Error.unsupported_version


def test_a_header_may_stand_anywhere_in_a_buffer_and_never_runs_past_its_end() -> None:
    frame = request_frame(Api.METADATA, 9, b"\0\1\0\0\0")
    buffer = bytearray(b"before" + frame + b"after")
    header = read_request_header(buffer, 6, 6 + len(frame))
    assert header.body_at == 6 + read_request_header(frame).body_at
    for end in range(6, 6 + header.body_at - 6):
        with pytest.raises(MalformedRequest):
            read_request_header(buffer, 6, end)


@pytest.mark.parametrize("client_id", [b"\xff\xfe", b"\x7f\xffab", b"\0\2\xff\xff", b"\0"])
def test_a_header_with_a_bad_client_id_is_refused(client_id: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_request_header(request_frame(Api.METADATA, 1, b"", client_id))


def test_an_unknown_version_of_api_versions_is_answered_in_version_0_with_the_table() -> None:
    frame = unsupported_api_versions(42)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4:8] == (42).to_bytes(4, "big")
    answer = kio_read(message_class(Api.API_VERSIONS, 0, "response"), frame[8:])
    assert answer.error_code is Error.unsupported_version
    assert {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys} == advertised()
    assert SERVED.keys() == {key.api_key for key in answer.api_keys}


def test_nothing_of_kio_but_its_error_codes_is_imported_before_it_is_needed() -> None:
    code = """if True:
        import sys
        import kafka_classic.wire.bodies, kafka_classic.wire.produce, kafka_classic.wire.fetch
        names = [name for name in sys.modules if name.startswith("kio.schema.")]
        assert all(name.split(".")[2] in ("errors", "types") for name in names), names
        assert "kio.serial" not in sys.modules
    """
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=60)
