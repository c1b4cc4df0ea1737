"""Every relative link of the documents leads to a file that is there, and to a heading that is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OTHERS = ("README.md", "CONTRIBUTING.md", "notebooks/README.md", "compose/README.md")
DOCUMENTS = [*(ROOT / name for name in OTHERS), *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
LARGEST_PICTURE = 200_000


def links(text: str) -> list[str]:
    """Where the links of a document lead, but for those to other sites."""
    found = LINK.findall(re.sub(r"`[^`\n]*`", "", FENCED.sub("", text)))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(text: str) -> set[str]:
    """What its headings are called in a link: as code-hosting sites make it of their words."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCED.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def broken(document: Path) -> list[str]:
    """The links of a document that lead nowhere."""
    wrong = []
    for target in links(document.read_text()):
        path, _, anchor = target.partition("#")
        there = (document.parent / path).resolve() if path else document
        if not there.exists() or ROOT not in (there, *there.parents):
            wrong.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(there.read_text()):
            wrong.append(f"{target}: no such heading")
    return wrong


def test_links_and_headings_are_found() -> None:
    fence = "```\n# no\n[no](fence)\n```\n"
    text = f"# A `b` & c?\n[x](y.md#z) `[no](code)`\n{fence}![p](q.png) [w](https://e.org)\n## D-E [f](g)\n"
    assert links(text) == ["y.md#z", "q.png", "g"]
    assert anchors(text) == {"a-b--c", "d-e-f"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    assert broken(document) == []


def test_every_page_is_in_the_index_and_the_index_in_the_readme() -> None:
    index = links((ROOT / "docs" / "README.md").read_text())
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages - set(index) == set()
    assert "docs/README.md" in links((ROOT / "README.md").read_text())


def test_pictures_are_small() -> None:
    pictures = list((ROOT / "docs" / "pictures").iterdir())
    assert [path.name for path in pictures if path.stat().st_size > LARGEST_PICTURE] == []
    shown = {Path(target).name for document in DOCUMENTS for target in links(document.read_text())}
    assert {path.name for path in pictures} - shown == set()
