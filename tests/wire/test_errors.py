"""Errors carry Kafka's code and name, and say what to do."""

from kafka_classic.wire.errors import Error, KafkaError, MalformedRequest, UnsupportedVersion, default_message


def test_an_error_has_kafkas_code_and_name_and_whether_to_try_again() -> None:
    error = KafkaError(Error.not_leader_or_follower)
    assert (error.code, int(error.code), error.name, error.retriable) == (
        Error.not_leader_or_follower,
        6,
        "NOT_LEADER_OR_FOLLOWER",
        True,
    )
    assert str(error) == f"NOT_LEADER_OR_FOLLOWER: {error.message}"
    assert not KafkaError(Error.invalid_topic_exception).retriable


def test_a_message_of_ones_own_takes_the_place_of_the_default() -> None:
    assert KafkaError(Error.invalid_config, "retention.ms must be a number").message == "retention.ms must be a number"


def test_every_code_has_a_default_message() -> None:
    for code in Error:
        assert default_message(code)
        assert KafkaError(code.value).code is code


def test_a_code_that_is_not_known_is_told_by_its_number() -> None:
    error = KafkaError(12345)
    assert error.code is Error.unknown_server_error
    assert "12345" in str(error)


def test_what_is_wrong_with_a_request_is_an_error_too() -> None:
    assert MalformedRequest("cut short").code is Error.invalid_request
    unsupported = UnsupportedVersion(3, 99, 42)
    assert unsupported.code is Error.unsupported_version
    assert (unsupported.api_key, unsupported.api_version, unsupported.correlation_id) == (3, 99, 42)
