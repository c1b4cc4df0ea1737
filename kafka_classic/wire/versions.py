"""What changed its name or its meaning between two versions of a message, beyond fields that came and went.

`RAISE` has, by the name of the class on the wire, what makes the values just read fit the newer class; `LOWER` has what
an older version says in another way than the newer instance at hand.
"""

from collections.abc import Callable
from typing import Any, Final

from kafka_classic.wire.errors import Error
from kafka_classic.wire.schema import fields_of


def _raise_metadata(wire: Any, model: Any, values: dict[str, Any]) -> None:
    # Version 0 had no null: an empty list asked for all topics. Since then an empty one asks for none.
    if wire.__version__ == 0 < model.__version__ and not values["topics"]:
        values["topics"] = None


def _lower_metadata(wire: Any, model: Any) -> dict[str, Callable[[Any], Any]]:
    return {"topics": lambda request: request.topics or ()} if wire.__version__ == 0 < model.__version__ else {}


def _raise_delete_topics(wire: Any, model: Any, values: dict[str, Any]) -> None:
    # Version 6 can delete by id, so its topics are structs; before, they were names.
    if wire.__version__ < 6 <= model.__version__:
        state: Any = next(field.entity for field in fields_of(model) if field.name == "topics")
        values["topics"] = tuple(state(name=name, topic_id=None) for name in values.pop("topic_names"))


def _lower_delete_topics(wire: Any, model: Any) -> dict[str, Callable[[Any], Any]]:
    if wire.__version__ < 6 <= model.__version__:
        return {"topic_names": lambda request: tuple(topic.name or "" for topic in request.topics)}
    return {}


def _raise_fetch(wire: Any, model: Any, values: dict[str, Any]) -> None:
    # Version 15 moved the follower's id into a tagged struct.
    if wire.__version__ < 15 <= model.__version__:
        state: Any = next(field.entity for field in fields_of(model) if field.name == "replica_state")
        values["replica_state"] = state(replica_id=values.pop("replica_id"))


def _lower_fetch(wire: Any, model: Any) -> dict[str, Callable[[Any], Any]]:
    if wire.__version__ < 15 <= model.__version__:
        return {"replica_id": lambda request: request.replica_state.replica_id}
    return {}


def _raise_find_coordinator(wire: Any, model: Any, values: dict[str, Any]) -> None:
    # Version 4 asks for many coordinators at once; before, for one.
    if wire.__version__ < 4 <= model.__version__:
        values["coordinator_keys"] = (values.pop("key"),)


def _lower_find_coordinator(wire: Any, model: Any) -> dict[str, Callable[[Any], Any]]:
    if wire.__version__ < 4 <= model.__version__:
        return {"key": lambda request: next(iter(request.coordinator_keys), "")}
    return {}


# What a response before version 4 says of its one coordinator, and what it says when there is none.
ONE_COORDINATOR: Final[dict[str, Any]] = {
    "error_code": Error.coordinator_not_available,
    "error_message": None,
    "node_id": -1,
    "host": "",
    "port": -1,
}


def _raise_found_coordinator(wire: Any, model: Any, values: dict[str, Any]) -> None:
    if wire.__version__ < 4 <= model.__version__:
        row: Any = next(field.entity for field in fields_of(model) if field.name == "coordinators")
        one = {name: values.pop(name, missing) for name, missing in ONE_COORDINATOR.items()}
        values["coordinators"] = (row(key="", **one),)


def _lower_found_coordinator(wire: Any, model: Any) -> dict[str, Callable[[Any], Any]]:
    def first(name: str, missing: Any) -> Callable[[Any], Any]:
        return lambda response: getattr(response.coordinators[0], name) if response.coordinators else missing

    if wire.__version__ < 4 <= model.__version__:
        return {name: first(name, missing) for name, missing in ONE_COORDINATOR.items()}
    return {}


RAISE: Final[dict[str, Callable[[Any, Any, dict[str, Any]], None]]] = {
    "MetadataRequest": _raise_metadata,
    "DeleteTopicsRequest": _raise_delete_topics,
    "FetchRequest": _raise_fetch,
    "FindCoordinatorRequest": _raise_find_coordinator,
    "FindCoordinatorResponse": _raise_found_coordinator,
}

LOWER: Final[dict[str, Callable[[Any, Any], dict[str, Callable[[Any], Any]]]]] = {
    "MetadataRequest": _lower_metadata,
    "DeleteTopicsRequest": _lower_delete_topics,
    "FetchRequest": _lower_fetch,
    "FindCoordinatorRequest": _lower_find_coordinator,
    "FindCoordinatorResponse": _lower_found_coordinator,
}
