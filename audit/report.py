"""The audit as one self-contained page: a heat map of tiers by windows, and what is behind each cell of it."""

from __future__ import annotations

import json
from importlib.resources import files

from kafka_classic.audit.pipeline import Audit
from kafka_classic.audit.summary import as_json

_PLACE = "/*DATA*/"


def page(audit: Audit) -> str:
    """The page's HTML; it loads nothing from anywhere."""
    template = files("kafka_classic.audit").joinpath("report.html").read_text()
    # Within a script element only "</" could end it, and topics' and servers' names are not ours.
    data = json.dumps(as_json(audit), separators=(",", ":")).replace("<", "\\u003c")
    return template.replace(_PLACE, data, 1)
