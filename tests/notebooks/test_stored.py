"""What the repository shows of the notebooks, and that they still run: `make notebooks-test` for the latter."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from kafka_classic.notebooks import store

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 7


@by_name
def test_a_notebook_shows_the_outcome_of_its_present_source(path: Path) -> None:
    assert store.faults(store.read(path)) == []


@by_name
def test_a_notebook_is_small_enough_to_be_shown_by_a_code_host(path: Path) -> None:
    assert path.stat().st_size <= store.LARGEST


@by_name
def test_a_notebook_links_to_notebooks_that_are_there(path: Path) -> None:
    text = path.read_text()
    linked = {link.split(")")[0] for link in text.split("](")[1:] if link.split(")")[0].endswith(".ipynb")}
    assert {name for name in linked if not (path.parent / name).exists()} == set()


@by_name
@pytest.mark.notebooks
@pytest.mark.timeout(280)
def test_a_notebook_runs_and_shows_what_is_stored(path: Path) -> None:
    stored = store.read(path)
    assert store.kinds(store.run(stored, form="small", timeout=240)) == store.kinds(stored)


def test_a_notebook_that_was_changed_and_not_run_again_is_found_out() -> None:
    notebook = copy.deepcopy(store.read(NOTEBOOKS[0]))
    code = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    code["source"] = [*code["source"], "\nprint('more')"]
    assert any("present source" in fault for fault in store.faults(notebook))


def test_what_a_reader_should_not_see_is_found() -> None:
    notebook = copy.deepcopy(store.read(NOTEBOOKS[0]))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    place = "/" + "tmp/somewhere/of/mine"
    code[0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": [f"kept in {place}\n"]}]
    code[1]["outputs"] = [{"output_type": "error", "ename": "E", "evalue": "", "traceback": []}]
    code[2]["execution_count"] = None
    found = "; ".join(store.faults(notebook))
    assert place in found
    assert "a cell failed" in found
    assert "from top to bottom" in found


def test_cleaning_keeps_what_was_shown_and_drops_what_is_of_the_machine() -> None:
    cell = {
        "cell_type": "code",
        "id": "a",
        "metadata": {"execution": {"iopub.execute_input": "2011-06-12"}, "jupyter": {"source_hidden": True}},
        "source": "print(1)",
        "execution_count": 1,
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": "1\n"},
            {"output_type": "stream", "name": "stderr", "text": "a warning\n"},
            {"output_type": "stream", "name": "stdout", "text": "2\n"},
        ],
    }
    done = store.cleaned({"cells": [cell], "metadata": {"kernelspec": {"name": "mine"}}})
    assert done["cells"][0]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "1\n2\n"}]
    assert done["cells"][0]["metadata"] == {"jupyter": {"source_hidden": True}}
    assert done["metadata"]["kernelspec"]["name"] == "python3"
    assert store.kinds(done) == [["stream"]]
