"""Run notebooks and store what they show: `make notebooks-run`, or `python -P -m kafka_classic.notebooks.store FOLDER`.

What is stored is what a reader sees who runs nothing: no machine's paths, no errors, and a digest of the source that it
is the outcome of, so that a notebook changed and not run again is found out (`faults`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_classic.notebooks.lab import FORM

Notebook = dict[str, Any]

LARGEST = 600 << 10
_OWN = "kafka_classic"
# Temporary folders, folders of people, and the places a package is installed to.
_PLACES = re.compile(r"(?<![\w./-])/(?:tmp|var/tmp|home|root|Users|opt|usr/lib|usr/local)/[^\s'\"<]*")


def run(notebook: Notebook, form: str = "", timeout: int = 600) -> Notebook:
    """Execute a copy of a notebook from top to bottom in a folder of its own; the first error is raised."""
    import nbformat
    from nbclient import NotebookClient

    copy = nbformat.reads(json.dumps(notebook), as_version=4)
    before = os.environ.get(FORM)
    os.environ[FORM] = form
    try:
        with tempfile.TemporaryDirectory(prefix="kafka-classic-notebook-") as folder:
            client = NotebookClient(
                copy, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": folder}}
            )
            client.execute()
    finally:
        os.environ.pop(FORM) if before is None else os.environ.update({FORM: before})
    return _loaded(copy)


def cleaned(notebook: Notebook) -> Notebook:
    """What is worth storing of an executed notebook: no times, no warnings, stretches of text in one piece."""
    cells = []
    for cell in notebook["cells"]:
        kept = {"cell_type": cell["cell_type"], "id": cell["id"], "metadata": _kept(cell), "source": cell["source"]}
        if cell["cell_type"] == "code":
            kept |= {"execution_count": cell["execution_count"], "outputs": _outputs(cell["outputs"])}
        cells.append(kept)
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        _OWN: {"outcome_of": digest(notebook)},
    }
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _kept(cell: Notebook) -> Notebook:
    # Whether an editor shows the source: how a picture is drawn is folded away.
    return {"jupyter": cell["metadata"]["jupyter"]} if "jupyter" in cell["metadata"] else {}


def _outputs(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for output in outputs:
        if output.get("name") == "stderr":
            continue
        if output["output_type"] == "stream" and kept and kept[-1]["output_type"] == "stream":
            kept[-1]["text"] += output["text"]
            continue
        kept.append({**output, "metadata": {}} if "metadata" in output else dict(output))
    return kept


def digest(notebook: Notebook) -> str:
    """Stands for the source of all code cells."""
    code = [_text(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]


def kinds(notebook: Notebook) -> list[list[str]]:
    """What kinds of things each code cell shows: text, a table, a picture."""
    return [
        sorted({kind for output in _outputs(cell["outputs"]) for kind in _kinds(output)})
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def _kinds(output: Mapping[str, Any]) -> list[str]:
    return [output["output_type"], *output.get("data", ())]


def faults(notebook: Notebook) -> list[str]:
    """Why a stored notebook should not be: what a reader would miss or should not see."""
    found = []
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    if notebook["metadata"].get(_OWN, {}).get("outcome_of") != digest(notebook):
        found.append("what it shows is not the outcome of its present source: run `make notebooks-run`")
    if [cell["execution_count"] for cell in code] != [*range(1, len(code) + 1)]:
        found.append("it was not run from top to bottom in one go: run `make notebooks-run`")
    outputs = [output for cell in code for output in cell["outputs"]]
    if any(output["output_type"] == "error" for output in outputs):
        found.append("a cell failed")
    if not any("image/png" in output.get("data", ()) for output in outputs):
        found.append("it shows no picture")
    found += [f"it names a place of the machine it ran on: {place}" for place in _places(notebook)]
    return found


def _places(notebook: Notebook) -> list[str]:
    shown = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    texts = [_text(output.get("text", "")) for output in shown]
    texts += [_text(value) for output in shown for kind, value in output.get("data", {}).items() if kind != "image/png"]
    return sorted({place for text in texts for place in _PLACES.findall(text)})


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)


def read(path: Path) -> Notebook:
    notebook: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def write(path: Path, notebook: Notebook) -> None:
    """As Jupyter itself writes it: a later save by hand changes only what was changed."""
    import nbformat

    text = nbformat.writes(nbformat.reads(json.dumps(notebook), as_version=4))
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def _loaded(node: Any) -> Notebook:
    notebook: Notebook = json.loads(json.dumps(node))
    return notebook


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="these alone, without .ipynb")
    asked = parser.parse_args()
    wrong = 0
    for path in sorted(asked.folder.glob("*.ipynb")):
        if asked.names and path.stem not in asked.names:
            continue
        began = time.monotonic()
        done = cleaned(run(read(path)))
        write(path, done)
        problems = faults(done)
        if path.stat().st_size > LARGEST:
            problems.append(f"it has {path.stat().st_size} bytes, more than {LARGEST}")
        print(f"{path}: {time.monotonic() - began:.0f} s, {path.stat().st_size >> 10} KB", *problems, sep="\n  ")
        wrong += bool(problems)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
