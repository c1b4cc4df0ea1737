"""Random schedules by seed, and small ones from those that fail."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from tests.replication.simulation import Cluster, Step, Violation

STEPS = 120
Make = Callable[[int, int], Cluster]

# How often each action comes, among those that a schedule has at all.
USUAL = {"produce": 12, "follow": 24, "poll": 6, "deliver": 16, "arrive": 10, "look": 10, "time_passes": 4}
FAULTS = {
    **{"drop": 4, "lie": 1, "save": 2, "pause": 1, "resume": 2, "crash": 2},
    **{"expire": 4, "join": 6, "move": 3, "tell_again": 3},
}


class Failed(AssertionError):
    """A schedule after which something does not hold; its text is a program that plays it again."""

    def __init__(self, seed: int, size: int, min_isr: int, steps: list[Step], reason: Violation) -> None:
        rows = "".join(f"    {step},\n" for step in steps)
        super().__init__(
            f"seed {seed}: {reason}\nThe shortest schedule found that fails (of play() in tests/replication/walk.py):\n"
            f"play(Cluster({size}, {min_isr}), [\n{rows}])"
        )
        self.seed = seed
        self.steps = steps
        self.reason = reason


def schedule(seed: int) -> tuple[int, int, list[Step]]:
    """How many brokers, min.insync.replicas, and the steps. Each schedule leaves some faults out (swarm testing)."""
    rng = random.Random(seed)
    size = rng.choice((3, 3, 3, 4, 5))
    min_isr = rng.choice((1, 2))
    weights = dict(USUAL)
    weights |= {name: weight * rng.choice((0, 1, 1, 2)) for name, weight in FAULTS.items()}
    names = rng.choices(list(weights), list(weights.values()), k=STEPS)
    number = rng.randrange
    return size, min_isr, [(name, number(60), number(60)) for name in names]


def play(cluster: Cluster, steps: Iterable[Step]) -> None:
    """Play a schedule, checking after every step; then mend everything and check the end."""
    for step in steps:
        cluster.step(*step)
    cluster.heal()


def walk(seeds: Iterable[int], make: Make = Cluster) -> int:
    """Play the schedules of the seeds; the first that fails is made small and raised. Returns how many were played."""
    played = 0
    for seed in seeds:
        size, min_isr, steps = schedule(seed)
        try:
            play(make(size, min_isr), steps)
        except Violation as reason:
            small = shrink(steps, lambda steps: _reason(make(size, min_isr), steps) is not None)
            raise Failed(seed, size, min_isr, small, _reason(make(size, min_isr), small) or reason) from None
        played += 1
    return played


def _reason(cluster: Cluster, steps: list[Step]) -> Violation | None:
    try:
        play(cluster, steps)
    except Violation as reason:
        return reason
    return None


def shrink(steps: list[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    """Leave out whatever is not needed to fail, in ever smaller pieces."""
    size = len(steps) // 2
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if fails(fewer):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps
