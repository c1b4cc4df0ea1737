"""The vendors' own client libraries in Java: their jars, and our small programs compiled against them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.peers.peer import PeerFailed

SOURCES = Path(__file__).resolve().parent
PLACES = (Path("/usr/share/java"), Path("/usr/share/activemq/lib"), Path("/usr/share/activemq/lib/optional"))


def find(jar: str, places: Sequence[Path] = PLACES) -> Path | None:
    """A jar by its name without a version, in the folders where Debian puts them."""
    return next((place / jar for place in places if (place / jar).exists()), None)


def missing(jars: Sequence[str], package: str) -> str:
    """Which of the jars or of Java's own programs are not there, with the package that brings them."""
    lacking = [jar for jar in jars if find(jar) is None]
    if lacking:
        return f"{', '.join(lacking)} not found in {PLACES[0]}: install the package {package}"
    for program in ("java", "javac"):
        if shutil.which(program) is None:
            return f"no {program} found: install a JDK, such as the package default-jdk-headless"
    return ""


def compiled(program: str, jars: Sequence[str], folder: Path) -> list[str]:
    """Compile a client into the folder; returns the command that runs it, to which its arguments are added."""
    classes = folder / "classes"
    classes.mkdir(exist_ok=True)
    # Without a logger of its own the library's logging says on the terminal that there is none.
    found = [*map(find, jars), find("slf4j-nop.jar")]
    path = ":".join(str(jar) for jar in found if jar is not None)
    sources = [str(SOURCES / f"{name}.java") for name in ("Progress", program)]
    done = subprocess.run(
        ["javac", "-nowarn", "-d", str(classes), "-cp", path, *sources], capture_output=True, text=True
    )
    if done.returncode:
        raise PeerFailed(f"{program}.java does not compile against {path}:\n{done.stderr}")
    return ["java", "-XX:-UsePerfData", "-cp", f"{classes}:{path}", program]


def run(command: Sequence[str]) -> None:
    """Run a client that has nothing to measure."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise PeerFailed(f"{' '.join(command[-3:])} ended with code {done.returncode}: {done.stderr[-2000:]}")
