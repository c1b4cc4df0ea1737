"""How much each system is given, in the quick form and in the full one."""

from __future__ import annotations

from dataclasses import dataclass

SIZE = 200  # bytes of a message, as in the paper


@dataclass(frozen=True, slots=True)
class Sizes:
    rounds: int
    ours: int  # messages in batches, and read again
    ours_single: int  # messages in batches of one
    peers: int  # messages of those that know nothing but single ones
    overhead: int  # messages of the measurement on disk
    stored_gb: tuple[float, ...]
    stored: int  # messages produced and consumed at each of these
    lag_gb: float
    lag: int  # messages produced beside a consumer

    def messages(self, batches: tuple[int, ...], batch: int) -> int:
        if len(batches) == 1:
            return self.peers
        return self.ours_single if batch == 1 else self.ours


# Ten million messages a run are the paper's. At the peers' rates they would take hours, and a million takes each of
# them half a minute or more: long past its start. Single messages of ours are as many as take them about as long.
FULL = Sizes(3, 10_000_000, 2_000_000, 1_000_000, 300_000, (1, 2, 5, 10, 20), 2_000_000, 5.0, 5_000_000)
QUICK = Sizes(3, 500_000, 100_000, 60_000, 20_000, (0.1, 0.2, 0.4), 300_000, 0.4, 500_000)
