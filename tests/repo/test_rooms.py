"""Rooms import only what the table of rooms allows, and each heavy library is imported in its own room alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# The table of CONTRIBUTING.md. A room may also import what the rooms it imports may import. "settings" and
# "__init__" are the two modules that stand outside of a room.
MAY_IMPORT: dict[str, set[str]] = {
    "records": set(),
    "wire": {"records"},
    "log": {"records"},
    "zk": set(),
    "settings": set(),
    "replication": {"log", "wire", "zk", "settings"},
    "controller": {"zk", "wire", "settings"},
    "groups": {"log", "wire", "replication", "settings"},
    "broker": {"records", "wire", "log", "zk", "settings", "replication", "controller", "groups"},
    "client": {"wire"},
    "producer": {"client", "records", "zk", "settings"},
    "consumer": {"client", "records", "zk", "settings"},
    "mirror": {"producer", "consumer"},
    "audit": {"producer", "consumer", "client"},
    "cli": {"broker", "client", "producer", "consumer", "mirror", "audit", "testing"},
    "testing": {"cli", "client", "zk"},
    "notebooks": {"testing"},
}
ONLY_IN: dict[str, set[str]] = {
    "kazoo": {"zk"},
    "gevent": {"broker", "replication"},
    "pyspark": {"audit"},
    "matplotlib": {"notebooks"},
    "nbclient": {"notebooks"},
    "nbformat": {"notebooks"},
}


def _sources() -> list[tuple[str, Path]]:
    found = []
    for folder in ("kafka_classic", "zk", "consumer", "audit", "notebooks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            room = parts[0] if folder != "kafka_classic" else parts[1]
            found.append((room, path))
    return found


def _package(path: Path) -> str:
    folder = path.parent.relative_to(ROOT).parts
    return ".".join(folder if folder[0] == "kafka_classic" else ("kafka_classic", *folder))


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            above = _package(path).split(".")[: -node.level + 1 or None] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            if module == "kafka_classic":
                for alias in node.names:
                    yield f"kafka_classic.{alias.name}", node.lineno
            else:
                yield module, node.lineno


def _allowed(room: str) -> set[str]:
    reached: set[str] = {room}
    todo = [room]
    while todo:
        for other in MAY_IMPORT[todo.pop()] - reached:
            reached.add(other)
            todo.append(other)
    return reached


def test_every_source_folder_is_a_room_of_the_table() -> None:
    assert {room for room, _ in _sources()} - {"__init__"} <= MAY_IMPORT.keys()


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_the_table_allows(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for owner, path in _sources()
        if owner == room
        for name, line in _imports(path)
        if name.startswith("kafka_classic.")
        and not name.split(".")[1].startswith("__")
        and name.split(".")[1] not in _allowed(room)
    ]
    assert wrong == []


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_heavy_library_is_imported_in_its_own_room_alone(library: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for room, path in _sources()
        for name, line in _imports(path)
        if name.split(".")[0] == library and room not in ONLY_IN[library]
    ]
    assert wrong == []


def test_no_room_reaches_another_by_its_folder_name() -> None:
    # `import zk` works in a checkout and fails where it is installed.
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for _, path in _sources()
        for name, line in _imports(path)
        if name.split(".")[0] in ("zk", "consumer", "audit", "notebooks")
    ]
    assert wrong == []
