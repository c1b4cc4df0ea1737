"""Random schedules by seed, and small ones from those that fail."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial

from tests.replication.simulation import Cluster, Step, Violation

STEPS = 120
PHASE_ACTIONS = 6
PHASE_STEPS = 12
Make = Callable[[int, int], Cluster]

# How often each action comes, among those that a phase of a schedule has at all.
WEIGHTS = (
    {"produce": 8, "follow": 8, "poll": 3, "deliver": 8, "arrive": 6, "look": 4, "change_isr": 6, "time_passes": 4}
    | {"all_but_one_follow": 8, "all_but_one_hear": 4, "hear": 4, "others_hear": 4, "tell_again": 2, "drop": 4}
    | {"save": 1, "lie": 1, "expire": 4, "join": 5, "move": 5, "crash": 2, "pause": 1, "resume": 3}
)
# What it takes several steps to do, and chance alone hardly ever does; each with one broker that it is about,
# and another for the steps with a stroke.
SCENES = (
    ("time_passes", "all_but_one_follow", "all_but_one_follow", "change_isr"),  # it falls out of the ISR
    ("produce", "all_but_one_follow", "all_but_one_follow"),  # it stays behind
    ("produce", "follow", "follow"),  # it is ahead of the others
    ("move", "all_but_one_hear", "all_but_one_follow"),  # it is not told that another leads
    ("move", "others_hear", "all_but_one_follow", "all_but_one_follow"),  # the leader is not told
    ("move", "hear", "all_but_one_follow", "all_but_one_follow"),
    ("expire", "others_hear", "all_but_one_follow", "all_but_one_follow"),
    (  # it falls out of the ISR, more is committed, and it is the first to follow the next leader
        *("time_passes", "all_but_one_follow", "change_isr", "produce", "all_but_one_follow", "all_but_one_follow"),
        *("expire'", "others_hear", "follow", "follow", "change_isr"),
    ),
    (  # it is ahead with the leader, cuts that under another, and the first one leads again and knows nothing of it
        *("produce", "follow", "follow", "move'", "others_hear", "follow"),
        *("move'", "hear", "all_but_one_hear", "all_but_one_follow", "all_but_one_follow"),
    ),
    ("expire", "all_but_one_hear", "all_but_one_follow"),  # it is a zombie
    ("expire", "join", "hear", "follow", "follow", "change_isr"),  # it comes back
    ("crash", "expire", "join", "hear", "follow", "follow", "change_isr"),
)


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
    """How many brokers, min.insync.replicas, and the steps.

    It has phases in each of which only some things happen, and mostly the same broker is left out: with a bit of
    everything all the time nothing would ever go far enough to go wrong (swarm testing).
    """
    rng = random.Random(seed)

    def number(below: int) -> int:
        return int(rng.random() * below)

    size, min_isr = rng.choice((3, 3, 4, 4, 5)), rng.choice((1, 2))
    steps: list[Step] = []
    while len(steps) < STEPS:
        names = rng.sample(list(WEIGHTS), PHASE_ACTIONS)
        odd, other = number(60), number(60)
        if number(2):
            scene = rng.choice(SCENES)
            steps += [(name.rstrip("'"), other if name[-1] == "'" else odd, number(60)) for name in scene]
        else:
            for name in rng.choices(names, [WEIGHTS[name] for name in names], k=1 + number(PHASE_STEPS)):
                steps.append((name, odd if number(2) else number(60), number(60)))
    return size, min_isr, steps


def play(cluster: Cluster, steps: Iterable[Step], *, heal: bool = True) -> None:
    """Play a schedule, checking after every step; then mend everything and check the end."""
    for action, a, b in steps:
        cluster.step(action, a, b)
    if heal:
        cluster.heal()


def walk(seeds: Iterable[int], make: Make = Cluster, *, heal: bool = True) -> int:
    """Play the schedules of the seeds; the first that fails is made small and raised. Returns how many were played."""
    played = 0
    for seed in seeds:
        size, min_isr, steps = schedule(seed)
        fate = partial(_reason, partial(make, size, min_isr), heal)
        if fate(steps) is not None:
            small = shrink(steps, fate)
            violation = fate(small)
            assert violation is not None
            raise Failed(seed, size, min_isr, small, violation)
        played += 1
    return played


def _reason(make: Callable[[], Cluster], heal: bool, steps: list[Step]) -> Violation | None:
    try:
        play(make(), steps, heal=heal)
    except Violation as violation:
        return violation
    return None


def shrink(steps: list[Step], fate: Callable[[list[Step]], Violation | None]) -> list[Step]:
    """Leave out whatever is not needed to fail, in ever smaller pieces."""
    size = len(steps) // 2
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if fate(fewer) is not None:
                steps = fewer
            else:
                at += size
        size //= 2
    return steps
