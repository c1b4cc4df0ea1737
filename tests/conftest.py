"""Lets a test import what stands beside it (`from tests.log.batches import …`).

The repository's root goes to the END of the path: `kafka_classic` itself must come from what was installed, as users
have it, and not from the source folder, which lacks the rooms that stand elsewhere (zk, consumer, audit).
"""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent)
if ROOT not in sys.path:
    sys.path.append(ROOT)
