"""How long to wait before the next attempt: longer each time, and not all clients at once."""

from __future__ import annotations

import random
from typing import NamedTuple


class Backoff(NamedTuple):
    """Exponential backoff with jitter, as retry.backoff.ms, retry.backoff.max.ms and Kafka's 20 % of chance."""

    first: float = 0.05
    longest: float = 1.0
    jitter: float = 0.2

    def delay(self, attempt: int, rng: random.Random) -> float:
        """Return the seconds to wait after attempt 0, 1, 2 … has failed."""
        # The exponent is bounded: 2**1000 is no float, and a broker may be away for a day.
        delay = min(self.longest, self.first * (1 << min(attempt, 30)))
        return delay * rng.uniform(1 - self.jitter, 1 + self.jitter)
