"""The report in a real browser: opened, clicked through, walked over with the keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_classic.audit.committed import tier_of
from kafka_classic.audit.findings import AtTier, Verdict
from kafka_classic.audit.judge import LOG
from kafka_classic.audit.pipeline import Audit, Question
from kafka_classic.audit.report import page
from kafka_classic.audit.summary import sentence
from tests.audit.browser import Browser, programs
from tests.audit.test_sabotage import drop_rows, lose_a_batch, producer_dies
from tests.audit.worlds import GROUP, WAREHOUSE, World

needs_chromium = pytest.mark.skipif(
    programs() is None, reason="no Chromium with its driver here: apt install chromium chromium-driver"
)
OTHERS = tier_of("others")
RIGHT, ENTER = "\ue014", "\ue007"


def sabotaged(windows: int = 6) -> Audit:
    world = World(3, topics=2, windows=windows)
    keys = sorted({made.key for made in world.made})
    lose_a_batch(world, keys[0])
    drop_rows(world, keys[7])
    producer_dies(world, keys[-1])
    cells = sorted(world.audit(), key=lambda cell: (cell.topic, cell.window, cell.producer))
    topics = sorted({cell.topic for cell in cells})
    for cell in cells:
        if cell.topic == topics[0]:
            cell.tiers[OTHERS] = AtTier(Verdict.PASSED, cell.published, cell.published)
    tiers = [LOG, GROUP, OTHERS, WAREHOUSE]
    return Audit(Question("127.0.0.1:9092"), 1_700_000_900_000, topics, tiers, cells, seconds=3.2)


def test_the_page_loads_nothing_from_anywhere_and_no_name_can_break_out_of_its_data() -> None:
    audit = sabotaged()
    audit.cells[0].client = "</script><script>alert(1)</script>"
    text = page(audit)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", text)
    assert "<script>alert" not in text
    assert text.count("</script>") == 2


def test_what_was_counted_in_an_unknown_window_is_not_told_as_damage() -> None:
    audit = sabotaged()
    before = sentence(audit)
    assert "missing" in before
    unknown = next(at for cell in audit.cells for at in cell.tiers.values() if at.verdict is Verdict.UNKNOWN)
    unknown.extra = 60  # what a producer that died had written and never told of
    assert sentence(audit) == before


@needs_chromium
def test_the_report_leads_from_the_map_to_the_lost_messages(tmp_path: Path) -> None:
    audit = sabotaged()
    assert audit.verdict is Verdict.DAMAGED
    path = tmp_path / "report.html"
    path.write_text(page(audit))
    with Browser(tmp_path / "profile") as browser:
        browser.open(path)
        assert "DAMAGED" in browser.text("#verdict")
        assert browser.run("return document.querySelectorAll('section.card').length") == 2
        # It opens with what is wrong.
        assert "missing at log" in browser.text(".detail:not([hidden])")
        browser.click('section[data-topic="topic-0"] .cell[data-tier="warehouse"].damaged')
        detail = browser.text('section[data-topic="topic-0"] .detail')
        assert "missing at warehouse" in detail
        assert re.search(r"numbers \d+.\d+ of epoch 0", detail)
        assert "host/c" in detail
        browser.click('section[data-topic="topic-1"] .cell.unknown')
        assert "has not closed this window" in browser.text('section[data-topic="topic-1"] .detail')
        # What a group only passed looks otherwise than what was counted, and says why.
        browser.click('section[data-topic="topic-0"] .cell.passed')
        assert re.search(
            r"others \(committed\)\s+passed.*offsets", browser.text('section[data-topic="topic-0"] .detail')
        )
        # By keys alone.
        browser.run("document.querySelector('section[data-topic=\"topic-1\"] .cell').focus()")
        browser.press(RIGHT)
        assert browser.run("return document.activeElement.dataset.x") == "1"
        browser.press(ENTER)
        assert browser.run("return document.activeElement.getAttribute('aria-pressed')") == "true"
        before = browser.run("return getComputedStyle(document.body).backgroundColor")
        browser.click("#theme")
        assert browser.run("return getComputedStyle(document.body).backgroundColor") != before


@needs_chromium
def test_a_week_of_windows_is_drawn_in_columns_that_can_be_clicked(tmp_path: Path) -> None:
    audit = sabotaged(windows=6)
    one = [cell for cell in audit.cells if cell.topic == "topic-1"]
    minute = one[0].window_ms
    for number in range(3000):
        copy = type(one[0])("topic-1", one[0].window - (number + 1) * minute, minute, 0, "host", "c", 10)
        copy.tiers = one[0].tiers
        audit.cells.append(copy)
    path = tmp_path / "report.html"
    path.write_text(page(audit))
    with Browser(tmp_path / "profile") as browser:
        browser.open(path)
        columns = browser.run(
            'return document.querySelectorAll(\'section[data-topic="topic-1"] .cell[data-y="0"]\').length'
        )
        assert 10 < columns <= 96
        browser.click('section[data-topic="topic-1"] .cell[data-x="2"]')
        assert "producer" in browser.text('section[data-topic="topic-1"] .detail')
