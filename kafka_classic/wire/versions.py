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


def _raise_leave_group(wire: Any, model: Any, values: dict[str, Any]) -> None:
    # Version 3 lets many leave at once; before, it was one.
    if wire.__version__ < 3 <= model.__version__:
        one: Any = next(field.entity for field in fields_of(model) if field.name == "members")
        values["members"] = (one(member_id=values.pop("member_id")),)


def _lower_leave_group(wire: Any, model: Any) -> dict[str, Callable[[Any], Any]]:
    if wire.__version__ < 3 <= model.__version__:
        return {"member_id": lambda request: next((member.member_id for member in request.members), "")}
    return {}


def _lower_left_group(wire: Any, model: Any) -> dict[str, Callable[[Any], Any]]:
    def error(response: Any) -> Any:
        return response.error_code or next((member.error_code for member in response.members), Error.none)

    return {"error_code": error} if wire.__version__ < 3 <= model.__version__ else {}


def _as_class(rows: Any, cls: Any) -> Any:
    """The same rows as instances of a class of another name, down to the last array."""
    if rows is None:
        return None
    fields = fields_of(cls)

    def one(row: Any) -> Any:
        given = {f.name: getattr(row, f.name, f.default) for f in fields}
        deeper = {f.name: _as_class(given[f.name], f.entity) for f in fields if f.entity is not None}
        return cls(**{**given, **deeper})

    return tuple(one(row) for row in rows)


def _raise_offset_fetch(wire: Any, model: Any, values: dict[str, Any]) -> None:
    # Version 8 asks for many groups at once; before, for one.
    if wire.__version__ < 8 <= model.__version__:
        group: Any = next(field.entity for field in fields_of(model) if field.name == "groups")
        topic = next(field.entity for field in fields_of(group) if field.name == "topics")
        values["groups"] = (group(group_id=values.pop("group_id"), topics=_as_class(values.pop("topics"), topic)),)


def _lower_offset_fetch(wire: Any, model: Any) -> dict[str, Callable[[Any], Any]]:
    if not wire.__version__ < 8 <= model.__version__:
        return {}

    def topics(request: Any) -> Any:
        found = next((group.topics for group in request.groups), ())
        return () if found is None and wire.__version__ < 2 else found  # version 1 could not ask for all there is

    return {
        "group_id": lambda request: next((group.group_id for group in request.groups), ""),
        "topics": topics,
    }


def _raise_fetched_offsets(wire: Any, model: Any, values: dict[str, Any]) -> None:
    if wire.__version__ < 8 <= model.__version__:
        group: Any = next(field.entity for field in fields_of(model) if field.name == "groups")
        topic = next(field.entity for field in fields_of(group) if field.name == "topics")
        rows, error = _as_class(values.pop("topics"), topic), values.pop("error_code", Error.none)
        values["groups"] = (group(group_id="", topics=rows, error_code=error),)


def _lower_fetched_offsets(wire: Any, model: Any) -> dict[str, Callable[[Any], Any]]:
    if wire.__version__ < 8 <= model.__version__:
        return {
            "topics": lambda response: next((group.topics for group in response.groups), ()),
            "error_code": lambda response: next((group.error_code for group in response.groups), Error.none),
        }
    return {}


RAISE: Final[dict[str, Callable[[Any, Any, dict[str, Any]], None]]] = {
    "MetadataRequest": _raise_metadata,
    "DeleteTopicsRequest": _raise_delete_topics,
    "FetchRequest": _raise_fetch,
    "FindCoordinatorRequest": _raise_find_coordinator,
    "FindCoordinatorResponse": _raise_found_coordinator,
    "LeaveGroupRequest": _raise_leave_group,
    "OffsetFetchRequest": _raise_offset_fetch,
    "OffsetFetchResponse": _raise_fetched_offsets,
}

LOWER: Final[dict[str, Callable[[Any, Any], dict[str, Callable[[Any], Any]]]]] = {
    "MetadataRequest": _lower_metadata,
    "DeleteTopicsRequest": _lower_delete_topics,
    "FetchRequest": _lower_fetch,
    "FindCoordinatorRequest": _lower_find_coordinator,
    "FindCoordinatorResponse": _lower_found_coordinator,
    "LeaveGroupRequest": _lower_leave_group,
    "LeaveGroupResponse": _lower_left_group,
    "OffsetFetchRequest": _lower_offset_fetch,
    "OffsetFetchResponse": _lower_fetched_offsets,
}
