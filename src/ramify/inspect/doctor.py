"""The doctor: what a store is, who works on it, and what a person should look at.

Each finding is a fact with a weight: `wrong` needs somebody, `look` may be as it should, `fine` is said because people
ask. The problems of `health` are what is wrong, so the two agree. It looks at a bounded part of the live rows and reads
no log, unless it is asked to look at everything: then the store checks its own bytes, and if they are whole the log is
audited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from ramify.errors import StoreBroken
from ramify.inspect.audit import Audit, audit, in_words
from ramify.inspect.find import every_run, title
from ramify.inspect.health import file_sizes, health_of
from ramify.inspect.live import ROWS, drained_in_words, rows_of, width
from ramify.inspect.unknown import unknown_among, unknown_in_words
from ramify.inspect.words import MEGA
from ramify.model.policy import SECOND
from ramify.model.process import Process
from ramify.model.run import RunState
from ramify.model.segment import Segment, SegmentState
from ramify.store.contract import Store
from ramify.store.description import Description
from ramify.store.reads import Reads

#: How many rows, processes or kinds a finding names.
NAMED = 5
REFUSALS = 1_000
#: The store empties its write-ahead log long before this size, unless a reader is in the way.
LARGE_LOG = 256 * MEGA


class Weight(StrEnum):
    """How much a finding matters."""

    FINE = "fine"
    LOOK = "look"
    WRONG = "wrong"


class Finding(msgspec.Struct, frozen=True):
    """One fact, and what to do about it."""

    weight: Weight
    about: str
    text: str
    advice: str | None = None


class Checkup(msgspec.Struct, frozen=True):
    """The findings of the doctor."""

    store: Description
    findings: Sequence[Finding]

    @property
    def healthy(self) -> bool:
        """True if nothing is wrong."""
        return all(finding.weight is not Weight.WRONG for finding in self.findings)


def examine(store: Store, *, full: bool = False) -> Checkup:
    """Look a store over; `full` also lets it check its bytes and audits the log of every run, which reads all of it."""
    try:
        findings = _look_over(store)
    except StoreBroken as error:
        findings = [Finding(Weight.WRONG, "file", str(error))]
    if full:
        damage = list(_damage(store.reads))
        # What is damaged tells lies, so there is nothing to audit.
        findings += damage or [
            Finding(Weight.FINE, "file", "every page, row and index of it is whole"),
            *_log(store.reads),
        ]
    return Checkup(store.describe(), findings)


def _look_over(store: Store) -> list[Finding]:
    reads = store.reads
    rows = list(rows_of(reads, None))
    processes = reads.processes()
    problems = health_of(store).problems
    return [
        *_files(store.describe()),
        *_processes(processes, rows),
        *(Finding(Weight.WRONG, each.about, each.text, each.advice) for each in problems),
        *_unknown(reads),
        *_claims(rows, processes, store.now()),
        *_garbage(rows),
        *_refusals(reads, store.now()),
        *_runs(reads),
    ]


def _damage(reads: Reads) -> Iterator[Finding]:
    advice = "stop all processes, copy the file together with its -wal away, and restore a backup"
    try:
        found = reads.damage()
    except StoreBroken as error:
        yield Finding(Weight.WRONG, "file", str(error), advice)
        return
    for text in found[:NAMED]:
        yield Finding(Weight.WRONG, "file", f"damaged: {text}", advice)
    if len(found) > NAMED:
        yield Finding(Weight.WRONG, "file", f"and {len(found) - NAMED:,} more like these", advice)


def _files(store: Description) -> Iterator[Finding]:
    size, log = file_sizes(store)
    if size is None or log is None:
        return
    text = f"the file has {size / MEGA:,.1f} MB, its write-ahead log {log / MEGA:,.1f} MB"
    if log > LARGE_LOG:
        advice = "something reads for very long and keeps the log from being emptied"
        yield Finding(Weight.LOOK, "file", text, advice)
    else:
        yield Finding(Weight.FINE, "file", text)


def _processes(processes: Sequence[Process], rows: Sequence[Segment]) -> Iterator[Finding]:
    held = Counter(row.owner for row in rows if row.owner is not None)
    living = [process for process in processes if process.is_alive]
    for process in living:
        version = f" of version {process.version}" if process.version else ""
        leaving = f", {drained_in_words(process)}" if process.draining is not None else ""
        age = f"last beat {process.beat_age:,.0f} s ago"
        text = f"pid {process.pid}{version} alive, {age}, holds {_rows(held[process.id])}{leaving}"
        yield Finding(Weight.FINE, "process", text)
    if not living:
        yield Finding(Weight.FINE, "process", "nobody works on this store")
    gone = sum(process.reaped for process in processes)
    if gone:
        ended = "1 session has ended and is" if gone == 1 else f"{gone:,} sessions have ended and are"
        yield Finding(Weight.FINE, "process", f"{ended} remembered for a day")


def _unknown(reads: Reads) -> Iterator[Finding]:
    # Those that are ready make their run stuck. The others may be known by a program that comes before their turn does.
    for kind, count in unknown_among(reads, every_run(reads, RunState.OPEN)).items():
        text, _, advice = unknown_in_words(kind, count).partition("; ")
        yield Finding(Weight.LOOK, "kind", text, advice)


def _claims(rows: Sequence[Segment], processes: Sequence[Process], now: int) -> Iterator[Finding]:
    pids = {process.id: process.pid for process in processes}
    held = sorted((row for row in rows if row.state is SegmentState.CLAIMED), key=lambda row: row.rank)
    if held:
        tasks = sum(map(width, held))
        yield Finding(Weight.FINE, "claims", f"{tasks:,} tasks are held in {_rows(len(held))}; those longest in line:")
    for row in held[:NAMED]:
        age = max(0, now - row.rank) / SECOND
        owner = pids.get(row.owner) if row.owner is not None else None
        text = f"{row.kind!a} {row.first}..{row.last} by pid {owner}, in line for about {age:,.0f} s"
        yield Finding(Weight.FINE, "claims", text)
    crashed = [row for row in rows if row.deaths.apart]
    if crashed:
        text = f"{sum(map(width, crashed)):,} tasks are suspects: processes died while they held them"
        yield Finding(Weight.LOOK, "claims", text, "they run apart until the one to blame is found")
    if len(rows) >= ROWS:
        yield Finding(Weight.LOOK, "claims", f"there are over {ROWS:,} live rows; only these were looked at")


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _garbage(rows: Sequence[Segment]) -> Iterator[Finding]:
    tasks = sum(width(row) for row in rows if row.state is SegmentState.GARBAGE)
    if tasks:
        text = f"{tasks:,} unpublished task rows are left over from streams that did not finish"
        yield Finding(Weight.LOOK, "garbage", text, "`ramify vacuum` removes them")


def _refusals(reads: Reads, now: int) -> Iterator[Finding]:
    refusals = reads.refusals(limit=REFUSALS)
    if refusals:
        tasks = sum(refusal.tasks for refusal in refusals)
        more = "over " if len(refusals) == REFUSALS else ""
        age = max(0, now - refusals[0].at) / SECOND
        text = f"{more}{len(refusals):,} late commits with {tasks:,} outcomes were refused, the last {age:,.0f} s ago"
        yield Finding(Weight.LOOK, "refusals", text, "a process froze or was cut off; its tasks were run by others")


def _runs(reads: Reads) -> Iterator[Finding]:
    states = Counter(run.state for run in every_run(reads))
    words = ", ".join(f"{count:,} {state.value}" for state, count in sorted(states.items())) or "none yet"
    yield Finding(Weight.FINE, "runs", words)


def _log(reads: Reads) -> Iterator[Finding]:
    total = Audit()
    for run in (run for run in every_run(reads) if run.state is not RunState.FORGOTTEN):
        found = audit(reads, run.id)
        total += found
        if not found.clean:
            tasks = ", ".join(map(str, (*found.lost_tasks, *found.twice_tasks)))
            yield Finding(Weight.WRONG, "log", f"run {title(run)}: {in_words(found)} (tasks {tasks})", "keep a copy")
    yield Finding(Weight.FINE if total.clean else Weight.WRONG, "log", in_words(total))
