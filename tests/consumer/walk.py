"""Random schedules of a group's life by seed, and small ones from those that fail."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial

from tests.consumer.simulation import World
from tests.replication.simulation import Step, Violation
from tests.replication.walk import shrink

STEPS = 60
Make = Callable[[int], World]

# How often each action comes, among those that a phase of a schedule has at all.
WEIGHTS = (
    {"run": 10, "run_on": 6, "run_all": 8, "all_but_one_run": 4, "deliver": 6, "deliver_all": 5, "time_passes": 8}
    | {"consume": 4, "join": 4, "leave": 2, "crash": 2, "grow": 3, "disconnect": 3, "reconnect": 4, "blink": 3}
    | {"freeze": 2, "thaw": 3, "expire": 4, "replace": 3, "crawl": 4, "stumble": 2}
)
# What it takes several steps to do, and chance alone hardly ever does; each is about one member.
WELL = ("time_passes", "run_all", "run_all", "deliver_all", "time_passes", "run_all", "run_all", "consume")
JOIN = ("join", "deliver_all", "time_passes", "run_all", "all_but_one_run")
LATE = ("disconnect", "expire", "all_but_one_run", "consume", "all_but_one_run", "reconnect")
SCENES = (
    WELL,
    (*JOIN, *("crawl",) * 20, "consume"),  # it is the last to give up, and to claim
    (*JOIN, *("run",) * 8, "replace", "all_but_one_run", "consume", "reconnect", "run", "run"),
    ("replace", "all_but_one_run", "consume", "all_but_one_run", "reconnect", "run_on", "consume"),
    ("freeze", "expire", "all_but_one_run", "consume", "thaw", "run", "reconnect", "run_on"),  # it stalls too long
    ("crawl", "blink", "crawl", "crawl", "blink", "run_on"),  # answers are lost
    ("run", "stumble", "run", "run", "run", "crawl", "crawl"),
    ("crash", "expire", "deliver_all", "time_passes", "run_all", "run_all"),
    ("grow", "deliver_all", "time_passes", "run_all", "run", "run"),
)


def _scene(rng: random.Random) -> tuple[str, ...]:
    """One of the scenes, or one that is interrupted somewhere by what is worst there."""
    if rng.random() < 0.6:
        return rng.choice(SCENES)
    worst = rng.choice((LATE, ("blink",), ("stumble",), ("crash", "expire"), ("freeze", "expire", "thaw", "reconnect")))
    steps = ("crawl",) * int(rng.random() * 14)
    return (*WELL, *JOIN, *steps, *worst, *("crawl",) * 6, "consume")


class Failed(AssertionError):
    """A schedule after which something does not hold; its text is a program that plays it again."""

    def __init__(self, seed: int, steps: list[Step], reason: Violation) -> None:
        rows = "".join(f"    {step},\n" for step in steps)
        super().__init__(
            f"seed {seed}: {reason}\nThe shortest schedule found that fails (of play() in tests/consumer/walk.py):\n"
            f"play(World({seed}), [\n{rows}])"
        )
        self.seed = seed
        self.steps = steps
        self.reason = reason


def schedule(seed: int) -> list[Step]:
    """Phases in each of which only some things happen, mostly to the same member (swarm testing)."""
    rng = random.Random(seed)

    def number(below: int) -> int:
        return int(rng.random() * below)

    steps: list[Step] = []
    while len(steps) < STEPS:
        names = rng.sample(list(WEIGHTS), 7)
        odd = number(60)
        if number(2):
            steps += [(name, odd, number(60)) for name in _scene(rng)]
        else:
            for name in rng.choices(names, [WEIGHTS[name] for name in names], k=1 + number(12)):
                steps.append((name, odd if number(2) else number(60), number(60)))
    return steps


def play(world: World, steps: Iterable[Step]) -> None:
    """Play a schedule to its end, checking after every step; then mend everything and check that too."""
    try:
        for action, a, b in steps:
            world.step(action, a, b)
        world.heal()
    finally:
        world.end()


def walk(seeds: Iterable[int], make: Make = World) -> int:
    """Play the schedules of the seeds; the first that fails is made small and raised. Returns how many were played."""
    played = 0
    for seed in seeds:
        steps = schedule(seed)
        fate = partial(_reason, partial(make, seed))
        if fate(steps) is not None:
            small = shrink(steps, fate)
            violation = fate(small)
            assert violation is not None
            raise Failed(seed, small, violation)
        played += 1
    return played


def _reason(make: Callable[[], World], steps: list[Step]) -> Violation | None:
    try:
        play(make(), steps)
    except Violation as violation:
        return violation
    return None
