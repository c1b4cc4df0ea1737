"""The table of APIs says what kio's classes say."""

from importlib.util import find_spec

from kafka_classic.wire.apis import CONTROL, FLEXIBLE_FROM, SERVED, Api, advertised, is_flexible, model_version
from kafka_classic.wire.schema import message_class
from tests.wire.messages import EVERY


def test_every_served_version_is_one_of_kios_and_flexible_where_it_says() -> None:
    for api, version in EVERY:
        for cls in (message_class(api, version, "request"), message_class(api, version, "response")):
            assert (cls.__api_key__, cls.__version__) == (api, version)
            assert cls.__flexible__ == is_flexible(api, version)


def test_headers_grow_tags_where_kios_do() -> None:
    for api, version in EVERY:
        request, response = message_class(api, version, "request"), message_class(api, version, "response")
        assert request.__header_schema__.__flexible__ == is_flexible(api, version)
        assert response.__header_schema__.__flexible__ == (is_flexible(api, version) and api is not Api.API_VERSIONS)


def test_no_version_below_the_lowest_is_known() -> None:
    for api, (low, _) in ((api, versions) for api, versions in SERVED.items() if api not in CONTROL):
        assert find_spec(f"kio.schema.{api.name.lower()}.v{low - 1}") is None


def test_produce_is_advertised_from_0_because_librdkafka_looks_for_it() -> None:
    assert advertised()[Api.PRODUCE] == (0, 13)
    assert SERVED[Api.PRODUCE] == (3, 13)
    assert {api: versions for api, versions in advertised().items() if api is not Api.PRODUCE} == {
        api: versions for api, versions in SERVED.items() if api is not Api.PRODUCE
    }


def test_the_unstable_version_of_init_producer_id_is_not_served() -> None:
    assert SERVED[Api.INIT_PRODUCER_ID] == (0, 5)


def test_versions_that_name_topics_have_a_model_that_names_them() -> None:
    assert [model_version(Api.FETCH, version) for version in (4, 12, 13, 18)] == [12, 12, 18, 18]
    assert [model_version(Api.PRODUCE, version) for version in (3, 12, 13)] == [12, 12, 13]
    assert model_version(Api.METADATA, 0) == 13


def test_every_served_api_says_where_it_became_flexible() -> None:
    assert FLEXIBLE_FROM.keys() == SERVED.keys()


def test_kio_has_none_of_the_messages_among_brokers() -> None:
    for api in CONTROL:
        assert find_spec(f"kio.schema.{api.name.lower()}") is None
        low, high = SERVED[api]
        assert low == high
