"""What pip installs: one import tree, all rooms in it, nothing else at the top level, and nothing that shadows it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

import kafka_classic

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"kafka_classic": "kafka_classic", "zk": "kafka_classic/zk", "consumer": "kafka_classic/consumer"}
FOLDERS |= {"audit": "kafka_classic/audit", "notebooks": "kafka_classic/notebooks"}
FILES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "pyspark_kafka_classic.py")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the files in a wheel built from a copy of the sources."""
    source = tmp_path_factory.mktemp("source") / "copy"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    out = tmp_path_factory.mktemp("wheel")
    build = "import sys, setuptools.build_meta as b; b.build_wheel(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", build, str(out)], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return set(zipfile.ZipFile(built).namelist())


def test_the_wheel_holds_every_module_of_every_room(wheel: set[str]) -> None:
    expected = {
        f"{target}/{path.relative_to(ROOT / folder)}"
        for folder, target in FOLDERS.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    assert expected <= wheel


def test_the_wheel_holds_the_notebooks_and_what_they_draw(wheel: set[str]) -> None:
    kept = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "notebooks").glob("*.jsonl")]
    assert {f"kafka_classic/notebooks/{path.name}" for path in kept} <= wheel


def test_the_wheel_tells_type_checkers_that_it_is_typed(wheel: set[str]) -> None:
    assert "kafka_classic/py.typed" in wheel


def test_the_wheel_installs_nothing_else_at_the_top_level_but_the_name_that_spark_looks_for(wheel: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kafka_classic", "pyspark_kafka_classic.py"}


def test_the_wheel_carries_its_licence(wheel: set[str]) -> None:
    assert any(name.endswith("LICENSE") for name in wheel)


def test_the_images_are_built_from_all_that_the_wheel_is() -> None:
    told = (ROOT / ".dockerignore").read_text().splitlines()
    assert {*FOLDERS, *FILES} <= {line.removeprefix("!") for line in told if line.startswith("!")}


def test_the_tests_import_what_was_installed_and_not_the_sources() -> None:
    told = json.loads(distribution("kafka-classic").read_text("direct_url.json") or "{}")
    if told.get("dir_info", {}).get("editable"):
        pytest.skip("installed in editable form: the sources are what was installed")
    assert Path(kafka_classic.__file__).parent != ROOT / "kafka_classic"


ROOM_NAMES = ["consumer", "zk", "audit", "records", "wire", "log", "broker", "client", "cli", "testing", "settings"]


@pytest.fixture
def folder_of_namesakes(tmp_path: Path) -> Path:
    """A user's working directory whose own modules have the names of our rooms."""
    for name in ROOM_NAMES:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the user\\'s own module was imported')\n")
    return tmp_path


def test_modules_of_a_user_with_our_rooms_names_shadow_nothing(folder_of_namesakes: Path) -> None:
    rooms = "import " + ", ".join(
        f"kafka_classic.{name}"
        for name in ("zk.server", "zk.session", "consumer", "audit", "broker.main", "client.simple", "cli.main")
    )
    # Without -P: the working directory comes first on the path, as in a user's own program.
    done = subprocess.run([sys.executable, "-c", rooms], cwd=folder_of_namesakes, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_starts_beside_a_users_own_modules(folder_of_namesakes: Path) -> None:
    (folder_of_namesakes / "kafka_classic.py").write_text("raise RuntimeError('shadowed')\n")
    script = Path(sys.executable).with_name("kafka-classic")
    for command in ([str(script), "--help"], [sys.executable, "-P", "-m", "kafka_classic.cli", "broker", "--help"]):
        done = subprocess.run(command, cwd=folder_of_namesakes, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_is_light_to_import() -> None:
    """A broker is a process of it: what it does not need must not be paid for before it serves."""
    heavy = ("gevent", "kio", "kazoo", "pyspark", "rich.table", "kafka_classic.broker", "kafka_classic.wire")
    code = f"import sys, kafka_classic.cli.main; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
