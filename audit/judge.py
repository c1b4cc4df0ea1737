"""The audit's verdict on one producer's messages of one topic: a pure function of what each tier counted.

Messages are compared by name (see kafka_classic.client.spans), so what is missing or doubled is named exactly, however
windows, batches, files and tasks cut it. Contents are compared by fingerprint where names agree. Whatever cannot be
decided is unknown, with the reason.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafka_classic.audit.committed import Passed, passed_by
from kafka_classic.audit.findings import DAMAGE, AtTier, Cell, Finding, Kind, Verdict
from kafka_classic.audit.windows import Counts, at_home
from kafka_classic.client.monitoring import Event, Share
from kafka_classic.client.spans import Run, Span, common, covered, in_order, repeated, size, without
from kafka_classic.client.tally import Tally

LOG = "log"
PRODUCER = "producer"
GROUP = "group "
_FINDINGS = 50  # of one kind at one tier of one cell; the counts count all


@dataclass(slots=True)
class Bounds:
    """How far a tier has come in one partition: it has seen offsets from `begin` up to, not including, `end`.

    In `doubtful` ranges of offsets somebody was at work and never said how far.
    """

    begin: int = 0
    end: int = 0
    doubtful: list[tuple[int, int]] = field(default_factory=list)
    why: str = ""  # not empty: nothing is known of this partition
    sure: int = 2**63 - 1  # below it lies what was there before the events were read
    scanned: int = 0  # counted was from this offset on, which may be after `begin`: what is asked for lies behind it
    compacted: bool = False  # it loses messages on purpose, and whoever reads it later never had them


@dataclass(slots=True)
class Dossier:
    """Everything known of one producer's messages of one topic; `now` is when the events were read, in milliseconds."""

    topic: str
    producer: int
    window_ms: int
    events: Sequence[Event] = ()
    counts: Mapping[str, Counts] = field(default_factory=dict)  # by tier
    bounds: Mapping[str, Mapping[int, Bounds]] = field(default_factory=dict)  # by tier and partition
    now: int = 0
    settle_ms: int = 10_000
    committed: Mapping[str, Mapping[int, Passed]] = field(default_factory=dict)  # by tier and partition


def judge(dossier: Dossier, windows: range | None = None) -> list[Cell]:
    """The cells of all windows that anybody tells of, or of those that begin within `windows`."""
    # Members of a group have windows of their own: there names alone are compared.
    counts = {
        tier: found if tier.startswith(GROUP) else at_home(found, dossier.events, dossier.window_ms)
        for tier, found in dossier.counts.items()
    }
    return _Judge(replace(dossier, counts=counts)).cells(windows)


class _Judge:
    def __init__(self, dossier: Dossier) -> None:
        self._case = dossier
        self._events: dict[int, Event] = {event.window: event for event in dossier.events}
        self._audited = bool(self._events)
        self._shares: dict[int, dict[int, Share]] = {
            window: {share.partition: share for share in event.shares if share.producer == dossier.producer}
            for window, event in self._events.items()
        }
        log = dossier.counts.get(LOG, {})
        # What is known of where messages lie: the log tells it best.
        told: dict[int, list[Run]] = defaultdict(list)
        for (partition, _), tally in log.items():
            told[partition] += tally.runs
        self._met = told  # window by window, where the log's runs go through from window to window
        self._log_runs = {partition: in_order(runs) for partition, runs in told.items()}
        self._breaks = {partition: _breaks(runs) for partition, runs in self._log_runs.items()}
        self._announced: dict[int, list[Span]] = {}
        if self._audited:
            every: dict[int, list[Run]] = defaultdict(list)
            for shares in self._shares.values():
                for partition, share in shares.items():
                    every[partition] += [*share.tally.runs, *share.failed, *share.replaced]
            self._announced = {partition: covered(runs) for partition, runs in every.items()}
        self._there: dict[str, dict[int, list[Span]]] = {}
        self._repeats: dict[str, dict[int, list[Span]]] = {}
        self._runs: dict[str, dict[int, list[Run]]] = {}
        for tier, counts in dossier.counts.items():
            runs_of: dict[int, list[Run]] = defaultdict(list)
            for (partition, _), tally in counts.items():
                runs_of[partition] += tally.runs
            self._there[tier] = {partition: covered(runs) for partition, runs in runs_of.items()}
            self._repeats[tier] = {partition: repeated(runs) for partition, runs in runs_of.items()}
            self._runs[tier] = {partition: in_order(runs) for partition, runs in runs_of.items()}

    def cells(self, windows: range | None) -> list[Cell]:
        found = set(self._events)
        for tier, counts in self._case.counts.items():
            # Members of a group have windows of their own, which need not be the producers'.
            found |= {window for _, window in counts if not tier.startswith(GROUP)}
        return [self._cell(window) for window in sorted(found) if windows is None or window in windows]

    # --- one window

    def _cell(self, window: int) -> Cell:
        case, event = self._case, self._events.get(window)
        shares = self._shares.get(window, {})
        log = {partition: tally for (partition, at), tally in case.counts.get(LOG, {}).items() if at == window}
        who = next(iter(case.events), None)
        cell = Cell(
            case.topic,
            window,
            event.window_ms if event else case.window_ms,
            case.producer,
            who.server if who else "",
            who.client if who else "",
            sum(share.tally.count for share in shares.values()),
            sum(share.late for share in shares.values()),
            sum(share.tally.bytes for share in shares.values()),
        )
        if self._audited:
            told = cell.tiers[PRODUCER] = AtTier(expected=cell.published, count=cell.published)
            _delays(told, [share.tally for share in shares.values()])
            if event is None:
                told.unknown("its producer tells nothing of this window")
            elif not event.closed:
                told.unknown("its producer has not closed this window: it is at work, or died")
        for tier in case.counts:
            if tier == LOG and not self._audited:
                cell.tiers[tier] = self._only_counted(log)
                continue
            reference = {index: share.tally for index, share in shares.items()} if self._audited else log
            if tier in case.committed:
                cell.tiers[tier] = self._passed(tier, window, reference)
            else:
                cell.tiers[tier] = self._at(tier, window, reference)
        return cell

    def _settled(self, window: int) -> bool:
        event = self._events.get(window)
        return not self._audited or (event is not None and event.closed)

    def _passed(self, tier: str, window: int, reference: Mapping[int, Tally]) -> AtTier:
        unread = {partition: one.why for partition, one in self._case.bounds.get(LOG, {}).items()}
        found = passed_by(self._case.committed[tier], reference, self._met, unread)
        if not self._settled(window):
            found.unknown("the window is open at its producer")
        return found

    def _only_counted(self, log: Mapping[int, Tally]) -> AtTier:
        found = AtTier(Verdict.COUNTED, count=sum(tally.count for tally in log.values()))
        _damaged(found, log)
        _delays(found, log.values())
        for partition, tally in log.items():
            extra = _within(self._repeats[LOG].get(partition, []), covered(tally.runs))
            self._note(found, Kind.DOUBLED, partition, extra)
        return found

    def _at(self, tier: str, window: int, reference: Mapping[int, Tally]) -> AtTier:
        """One tier of one window against what was published, or against the log where nobody tells what was."""
        counts = self._case.counts[tier]
        here = {partition: tally for (partition, at), tally in counts.items() if at == window}
        if tier.startswith(GROUP):
            here = self._by_names(tier, reference, here)
        found = AtTier(count=sum(tally.count for tally in here.values()))
        found.expected = sum(tally.count for tally in reference.values())
        _delays(found, list(here.values()))
        for partition in sorted({*reference, *here}):
            expected = covered(reference[partition].runs) if partition in reference else []
            self._compare(found, tier, window, partition, expected, reference.get(partition), here.get(partition))
        if not self._settled(window):
            # What a window that is still open lacks may yet come, and what it has too much may yet be told of.
            found.verdict = Verdict.COMPLETE
            for kind in DAMAGE:
                setattr(found, kind.value, 0)
            found.findings = [one for one in found.findings if one.kind not in DAMAGE]
            found.unknown("the window is open at its producer")
        _damaged(found, here)
        found.findings.sort(key=lambda one: (one.partition, one.epoch, one.first))
        return found

    def _by_names(self, tier: str, reference: Mapping[int, Tally], here: Mapping[int, Tally]) -> dict[int, Tally]:
        """What a group has of a window, whatever windows its members counted in."""
        found = {}
        for partition, expected in reference.items():
            spans = common(covered(expected.runs), self._there[tier].get(partition, []))
            told = here.get(partition)
            slowest, delays = (told.slowest, told.delays) if told else (0, 0)
            found[partition] = Tally(size(spans), 0, [Run(*span) for span in spans], None, None, slowest, delays)
        return found

    def _compare(
        self,
        found: AtTier,
        tier: str,
        window: int,
        partition: int,
        expected: list[Span],
        reference: Tally | None,
        here: Tally | None,
    ) -> None:
        bounds = self._case.bounds.get(tier, {}).get(partition)
        if bounds is None or bounds.why:
            found.unknown((bounds.why if bounds else "") or f"nothing of partition {partition} has come here")
            return
        there = self._there[tier].get(partition, [])
        absent = without(expected, there)
        for span in absent:
            self._absence(found, tier, window, partition, span, bounds)
        again = _within(self._repeats[tier].get(partition, []), expected)
        if tier.startswith(GROUP):
            found.again += size(again)
        else:
            self._note(found, Kind.DOUBLED, partition, again)
        share = self._shares.get(window, {}).get(partition)
        if share is not None and share.replaced:
            # Sent again under other numbers, since nobody knew that it had arrived: there twice.
            self._note(found, Kind.DOUBLED, partition, common(covered(share.replaced), there))
        unknown_names: list[Span] = []
        if self._audited and here is not None:
            unknown_names = without(covered(here.runs), self._announced.get(partition, []))
            unknown_names = self._not_too_new(found, partition, unknown_names, here)
            event = self._events.get(window)
            if unknown_names and event is None:
                found.unknown("its producer tells nothing of this window")
            elif unknown_names:
                self._note(found, Kind.EXTRA, partition, unknown_names)
        if again or here is None:
            return
        if tier == LOG:
            self._order(found, partition, here)
        event = self._events.get(window)
        alike = event is None or event.window_ms % self._case.window_ms == 0
        if alike and reference is not None and not absent and not unknown_names:
            self._contents(found, partition, expected, reference, here)

    def _not_too_new(self, found: AtTier, partition: int, names: list[Span], here: Tally) -> list[Span]:
        """Of names that no event tells, those that had to be told: what came after the events were read had not."""
        log = self._case.bounds.get(LOG, {}).get(partition)
        if not names or log is None:
            return names
        new = common(names, covered(run for run in here.runs if run.last_offset >= log.sure))
        if new:
            found.unknown("some messages came after the producers' events had been read")
        return without(names, new)

    def _absence(self, found: AtTier, tier: str, window: int, partition: int, span: Span, bounds: Bounds) -> None:
        """Decide on messages that were published and are not here: lost, gone by age, or not here yet."""
        log = self._case.bounds.get(LOG, {}).get(partition)
        if log is not None and log.compacted:
            found.unknown("the topic is compacted: what is absent may have been replaced before it came here")
            return
        event = self._events.get(window)
        fresh = event is None or self._case.now - event.published < self._case.settle_ms
        for part, first, last in self._places(tier, window, partition, span):
            if tier == LOG and first >= 0 and last < bounds.begin:
                self._note(found, Kind.DELETED, partition, [part], (first, last))
                found.unknown(f"messages before offset {bounds.begin} of partition {partition} were deleted")
            elif tier == LOG and 0 <= first < bounds.begin:
                found.unknown(
                    f"absent messages of partition {partition} may have been deleted: {bounds.begin} is its first"
                )
            elif tier == LOG and first < 0 and max(bounds.begin, bounds.scanned) > 0:
                found.unknown(
                    f"where the absent messages of partition {partition} lay is not known, and its log was cut"
                )
            elif first < 0 and tier != LOG:
                found.unknown("where the absent messages lay is not known")
            elif first < 0 and fresh:
                found.unknown("not here yet")  # of acks=0 nobody knows the offsets
            elif last >= bounds.end:
                if tier != LOG or fresh:
                    found.unknown("not here yet")
                else:
                    self._note(found, Kind.MISSING, partition, [part], (first, last))
            elif first < bounds.begin and tier != LOG:
                found.unknown(f"this tier began at offset {bounds.begin} of partition {partition}, after them")
            elif any(begin <= last and first < end for begin, end in bounds.doubtful):
                found.unknown("a reader that had them never said whether it was done with them")
            else:
                self._note(found, Kind.MISSING, partition, [part], (first, last))

    def _places(self, tier: str, window: int, partition: int, span: Span) -> list[tuple[Span, int, int]]:
        """The span in parts with the offsets that bound each; (-1, -1) where nobody knows."""
        share = self._shares.get(window, {}).get(partition)
        known = [*(share.tally.runs if share else []), *self._log_runs.get(partition, [])]
        left, found = [span], []
        for run in known:
            if run.first_offset < 0:
                continue
            for part in common([run.span], left):
                if run.last_offset - run.first_offset == run.size - 1:
                    first = run.first_offset + part.first - run.first
                    found.append((part, first, first + part.size - 1))
                else:
                    # Others wrote between: where the messages before and after these are tells where they lay.
                    found.append((part, *_between(self._runs[tier].get(partition, []), part, run)))
            left = without(left, [run.span])
        return [*found, *((part, -1, -1) for part in left)]

    def _contents(self, found: AtTier, partition: int, expected: list[Span], reference: Tally, here: Tally) -> None:
        names = covered(here.runs)
        moved = without(expected, names)
        if moved:
            # They are there, in another window: their timestamps are not what they were.
            self._note(found, Kind.ALTERED, partition, moved)
            return
        if without(names, expected):
            return  # holds messages of another window, which that window shows
        if here.content is not None and reference.content is not None:
            same = here.content == reference.content
        elif here.batches is not None and reference.batches is not None:
            same = here.batches == reference.batches
        else:
            return
        found.compared = True
        if not same and not here.damaged:
            spans = [Finding(Kind.ALTERED, partition, span.epoch, span.first, span.next) for span in expected]
            found.found(Kind.ALTERED, 1, spans)

    def _order(self, found: AtTier, partition: int, here: Tally) -> None:
        """Numbers rise with offsets (P21); counted are the places where they do not."""
        names = covered(here.runs)
        for run in self._breaks[partition]:
            if common([Span(run.epoch, run.first, run.first + 1)], names):
                finding = Finding(Kind.DISORDERED, partition, *run.span, run.first_offset, run.last_offset)
                found.found(Kind.DISORDERED, 1, [finding])

    def _note(
        self, found: AtTier, kind: Kind, partition: int, spans: Sequence[Span], at: tuple[int, int] = (-1, -1)
    ) -> None:
        room = _FINDINGS - sum(one.kind is kind for one in found.findings)
        findings = [
            Finding(kind, partition, *span, *(at if at[0] >= 0 else self._around(partition, span)))
            for span in spans[: max(0, room)]
        ]
        found.found(kind, size(spans), findings)

    def _around(self, partition: int, span: Span) -> tuple[int, int]:
        """The offsets within which the log has these messages, or would have them."""
        runs = self._log_runs.get(partition, [])
        inside = [run for run in runs if run.epoch == span.epoch and run.first < span.next and span.first < run.next]
        if inside:
            return min(run.first_offset for run in inside), max(run.last_offset for run in inside)
        after = max((run.last_offset for run in runs if (run.epoch, run.next) <= (span.epoch, span.first)), default=-1)
        before = min(
            (run.first_offset for run in runs if (run.epoch, run.first) >= (span.epoch, span.next)), default=-1
        )
        return after, before


def _breaks(runs: list[Run]) -> list[Run]:
    """The runs that lie before one with lower numbers. Of messages that are there twice the first copy counts."""
    found: list[Run] = []
    before: Run | None = None
    for run in runs:
        if run.epoch < 0 or (before is not None and (run.epoch, run.first) < (before.epoch, before.next)):
            continue
        if before is not None and run.first_offset < before.last_offset:
            found.append(run)
        before = run
    return found


def _between(here: Sequence[Run], part: Span, run: Run) -> tuple[int, int]:
    """The offsets that bound a part of a run, by what there is of the same producer just before and after it."""
    low, high = run.first_offset, run.last_offset
    place = bisect_left(here, (part.epoch, part.first))
    if place and here[place - 1].epoch == part.epoch and here[place - 1].next <= part.first:
        low = max(low, here[place - 1].last_offset + 1)
    place = bisect_left(here, (part.epoch, part.next))
    if place < len(here) and here[place].epoch == part.epoch and here[place].first_offset >= 0:
        high = min(high, here[place].first_offset - 1)
    # A later copy of a neighbour, or one that lies out of order, bounds nothing.
    return (low, high) if high - low >= part.size - 1 else (run.first_offset, run.last_offset)


def _within(spans: Sequence[Span], whole: list[Span]) -> list[Span]:
    """What of each span is in `whole`; a span that is there twice counts twice."""
    return [part for span in spans for part in common([span], whole)]


def _damaged(found: AtTier, tallies: Mapping[int, Tally]) -> None:
    for partition, tally in tallies.items():
        if tally.damaged:
            # By offsets: what the header of such a batch says of its producer may be what is wrong.
            places = [Finding(Kind.ALTERED, partition, -1, low, high + 1, low, high) for low, high in tally.broken]
            found.found(Kind.ALTERED, tally.damaged, places[:_FINDINGS])


def _delays(found: AtTier, tallies: Iterable[Tally]) -> None:
    tallies = list(tallies)
    count = sum(tally.count for tally in tallies)
    found.bytes = sum(tally.bytes for tally in tallies)
    found.slowest = max((tally.slowest for tally in tallies), default=0)
    found.mean_delay = sum(tally.delays for tally in tallies) // count if count else 0
