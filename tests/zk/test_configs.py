"""Settings in ZooKeeper and the notices of their changes."""

import json
from collections.abc import Callable

import pytest

from kafka_classic.zk.configs import DEFAULT, Config, ConfigRegistry, Kind, changed_entity, notice_number
from kafka_classic.zk.errors import VersionConflict
from kafka_classic.zk.session import Session
from kafka_classic.zk.znodes import Znodes
from tests.zk.breaking import expire, until

Connect = Callable[..., Session]
Told = list[tuple[Kind, str, dict[str, str]]]


def listen(registry: ConfigRegistry) -> Told:
    told: Told = []
    registry.watch(lambda kind, name, values: told.append((kind, name, values)))
    return told


def test_settings_are_kept_in_kafkas_json_with_a_notice(session: Session) -> None:
    configs = ConfigRegistry(session)
    assert configs.get("topics", "t") == Config({}, -1)
    assert (
        configs.set("topics", "t", {"b": "2", "a": "1"})
        == configs.get("topics", "t")
        == Config({"a": "1", "b": "2"}, 0)
    )
    configs.set("brokers", DEFAULT, {"x": "y"})
    assert configs.all("topics") == {"t": Config({"a": "1", "b": "2"}, 0)}
    assert configs.all("brokers") == {"<default>": Config({"x": "y"}, 0)}
    znodes = Znodes(session)
    node, notice = znodes.get("/config/topics/t"), znodes.get("/config/changes/config_change_0000000000")
    assert node is not None
    assert json.loads(node.data) == {"version": 1, "config": {"a": "1", "b": "2"}}
    assert notice is not None
    assert json.loads(notice.data) == {"version": 2, "entity_path": "topics/t"}
    assert znodes.exists("/config/changes/config_change_0000000001")


def test_settings_are_written_over_the_version_they_were_made_from(session: Session) -> None:
    configs = ConfigRegistry(session)
    assert configs.set("topics", "t", {"a": "1"}, -1).version == 0
    assert configs.set("topics", "t", {"a": "2"}, 0).version == 1
    with pytest.raises(VersionConflict, match="topics/t were changed by somebody else"):
        configs.set("topics", "t", {"a": "3"}, 0)
    assert configs.set("topics", "t", {"a": "2"}, 0).version == 1  # our own first try, whose answer was lost
    assert configs.set("topics", "t", {"a": "4"}).version == 2


def test_every_change_is_told_in_order_with_the_settings_as_they_are(
    session: Session, connect: Connect, hosts: str
) -> None:
    configs = ConfigRegistry(connect(hosts))
    configs.set("topics", "before", {"a": "0"})
    told = listen(ConfigRegistry(session))
    assert told == []
    configs.set("topics", "t", {"a": "1"})
    until(session, lambda: told == [("topics", "t", {"a": "1"})])
    configs.set("brokers", "1", {"b": "2"})
    until(session, lambda: told[1:] == [("brokers", "1", {"b": "2"})])
    for n in range(200):
        configs.set("topics", "t", {"a": str(n)})
    until(session, lambda: told[-1] == ("topics", "t", {"a": "199"}))
    numbers = [int(values["a"]) for kind, _, values in told[2:]]
    assert numbers == sorted(numbers)


def test_changes_during_an_expiry_are_told(session: Session, connect: Connect, hosts: str) -> None:
    told = listen(ConfigRegistry(session))
    expire(session)
    ConfigRegistry(connect(hosts)).set("topics", "t", {"a": "1"})
    until(session, lambda: told == [("topics", "t", {"a": "1"})])


def test_old_notices_are_deleted_at_the_next_change(session: Session, connect: Connect, hosts: str) -> None:
    now = [0.0]
    node = None
    told = listen(ConfigRegistry(session, clock=lambda: now[0]))
    configs, znodes = ConfigRegistry(connect(hosts)), Znodes(session)
    configs.set("topics", "t", {"a": "1"})
    until(session, lambda: len(told) == 1)
    node = znodes.get("/config/changes/config_change_0000000000")
    assert node is not None
    now[0] = node.created_ms / 1000 + 15 * 60 - 1
    configs.set("topics", "t", {"a": "2"})
    until(session, lambda: len(told) == 2)
    assert znodes.exists("/config/changes/config_change_0000000000")
    now[0] += 3600.0
    configs.set("topics", "t", {"a": "3"})
    until(session, lambda: len(told) == 3)
    until(session, lambda: znodes.children("/config/changes") == [])
    configs.set("topics", "t", {"a": "4"})
    until(session, lambda: told[-1] == ("topics", "t", {"a": "4"}))


def test_a_watcher_that_missed_notices_is_told_of_everything(session: Session, connect: Connect, hosts: str) -> None:
    other = connect(hosts)
    configs, znodes = ConfigRegistry(other), Znodes(other)
    configs.set("topics", "t", {"a": "1"})
    configs.set("brokers", "1", {"b": "1"})
    told: Told = []
    busy, go_on = session.handler.event_object(), session.handler.event_object()

    def tell(kind: Kind, name: str, values: dict[str, str]) -> None:
        told.append((kind, name, values))
        busy.set()
        go_on.wait(60)

    ConfigRegistry(session).watch(tell)
    configs.set("topics", "u", {"c": "1"})
    until(session, busy.is_set)
    configs.set("topics", "t", {"a": "2"})  # while the callback is busy this notice comes, and is gone again
    for name in znodes.children("/config/changes") or ():
        znodes.delete(f"/config/changes/{name}")
    go_on.set()
    until(session, lambda: len(told) == 4)
    assert sorted(told[1:]) == [("brokers", "1", {"b": "1"}), ("topics", "t", {"a": "2"}), ("topics", "u", {"c": "1"})]


@pytest.mark.parametrize(
    ("data", "entity"),
    [
        (b'{"version":2,"entity_path":"topics/a"}', ("topics", "a")),
        (b'{"version":1,"entity_type":"brokers","entity_name":"1"}', ("brokers", "1")),
        (b'{"version":2,"entity_path":"users/alice/clients/c"}', None),
        (b'{"version":2,"entity_path":"topics"}', None),
        (b'{"version":2}', None),
        (b"[]", None),
        (b"garbage", None),
        (b"", None),
    ],
)
def test_a_notice_says_what_changed_in_either_version_of_it(data: bytes, entity: tuple[str, str] | None) -> None:
    assert changed_entity(data) == entity


def test_only_notices_have_a_number() -> None:
    assert notice_number("config_change_0000000012") == 12
    assert notice_number("config_change_x") is None
    assert notice_number("0000000012") is None
