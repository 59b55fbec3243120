"""`ramify status`: how a run is doing."""

from __future__ import annotations

import time

import click

from ramify.cli.main import FAILED
from ramify.cli.out import Out
from ramify.cli.progress import as_json, progress_on
from ramify.cli.visit import Visit, Wrong, on_store
from ramify.inspect.find import newest_run, open_runs, title, typed
from ramify.inspect.live import drained_in_words, in_words, workers
from ramify.inspect.progress import lines_of
from ramify.inspect.rate import Moment, ObservedPace
from ramify.inspect.status import Counts, RunStatus, bounds_in_words, counts_of, nobody_in_words, status_of
from ramify.inspect.text import Piece
from ramify.inspect.words import moment, number, plural
from ramify.model.run import RunState, StoredRun, Tolerance

#: How long a single look measures the speed of a run that is being worked on, in seconds.
GLANCE = 0.4


@click.command()
@click.argument("run", required=False)
@click.option("-w", "--watch", is_flag=True, help="Follow the run until it ends; exit 1 if tasks failed.")
@click.option("--exit-code", is_flag=True, help="Exit 1 if the run has failed tasks, as `run` does.")
@on_store
def status(visit: Visit, run: str | None, watch: bool, exit_code: bool) -> None:
    """Show the progress of a run: counts by kind, rate, and the tasks its round waits for.

    RUN defaults to the only open run, or to the newest one if none is open.
    """
    chosen = _chosen(visit, run, watch)
    if chosen is None:
        return
    if watch:
        with progress_on(visit.store, chosen.id, visit.out) as progress:
            last = progress.join()
        failed = last is not None and has_failed(last)
    else:
        found, pace = _look(visit, chosen)
        if visit.out.as_json:
            visit.out.json(as_json(found, pace))
        else:
            show(visit.out, found, pace)
        failed = exit_code and has_failed(found)
    if failed:
        raise click.exceptions.Exit(FAILED)


def has_failed(status: RunStatus) -> bool:
    """Return whether the exit code is 1: tasks failed, or the run ended but not as done."""
    run = status.run
    untolerated = bool(status.total.failures) and run.tolerates is Tolerance.NONE
    return untolerated or (run.state.is_end and run.state not in (RunState.DONE, RunState.FORGOTTEN))


def show(out: Out, status: RunStatus, pace: ObservedPace) -> None:
    """A run in full: its lines, and a table of its kinds."""
    for line in lines_of(status, pace):
        out.say(*line)
    if status.run.shown:
        out.say("  began with: ", status.run.shown)
    if bounds := bounds_in_words(status):
        out.say("  bounds: ", bounds)
    if status.run.reason and status.run.state not in (RunState.OPEN, RunState.PAUSED):
        out.say("  because: ", status.run.reason)
    if (decision := status.run.decision) is not None and decision.by:
        why = (": ", decision.reason) if decision.reason not in ("", status.run.reason) else ()
        out.say(f"  {decision.what.value} by {decision.by}, {moment(decision.at)}", *why)
    for process in status.draining:
        out.say(f"  {in_words(process)} is ", ("look", drained_in_words(process)))
    for limit in status.limits:
        out.say("  ", ("look", limit.text))
    if status.total.duplicates:
        out.say(f"  {plural(status.total.duplicates, 'call')} dropped: their keys were taken")
    if status.kinds:
        out.say("")
        _kinds(out, status)
    if status.total.failures:
        out.say("")
        out.say(("dim", f"ramify errors {typed(status.run)}  says what failed"))


def _kinds(out: Out, status: RunStatus) -> None:
    heads = ["kind", "added", "pending", "done", "failed", "cancelled", "skipped", "retries"]
    rows = [[kind, *_cells(counts)] for kind, counts in sorted(status.kinds.items())]
    out.table(heads, rows, right=frozenset(range(1, len(heads))))


def _cells(counts: Counts) -> list[Piece]:
    failed = number(counts.failures)
    return [
        number(counts.added),
        number(counts.pending),
        number(counts.done),
        ("bad", failed) if counts.failures else failed,
        number(counts.cancelled),
        number(counts.skipped),
        number(counts.retries),
    ]


def _look(visit: Visit, run: StoredRun) -> tuple[RunStatus, ObservedPace]:
    """One look; two, a moment apart, when somebody works on the run, to tell how fast."""
    pace = ObservedPace()
    found = status_of(visit.store, run.id)
    if not found.live.run.held:
        return found, pace
    pace.note(Moment(time.monotonic(), found.total.added, found.total.ended))
    time.sleep(GLANCE)
    found = status_of(visit.store, run.id)
    pace.note(Moment(time.monotonic(), found.total.added, found.total.ended))
    return found, pace


def _chosen(visit: Visit, run: str | None, watch: bool) -> StoredRun | None:
    if run is not None:
        return visit.run(run)
    going = open_runs(visit.store.reads)
    if len(going) > 1:
        names = ", ".join(title(each) for each in going[-10:])
        if watch:
            raise Wrong(f"{len(going)} runs are open: {names}. Name one to watch")
        _briefly(visit, going)
        return None
    found = going[0] if going else newest_run(visit.store.reads)
    if found is None and not visit.out.as_json:
        visit.out.say("no runs yet")
    return found


def _briefly(visit: Visit, runs: list[StoredRun]) -> None:
    """A line for each of several open runs."""
    for run in runs:
        if visit.out.as_json:
            visit.out.json(as_json(status_of(visit.store, run.id), ObservedPace()))
            continue
        total = sum(counts_of(visit.store.reads, run.id).values(), Counts())
        failed: list[Piece] = [" · ", ("bad", f"{number(total.failures)} failed")] if total.failures else []
        state = f" · {run.state.value} · {number(total.done)} done · {number(total.pending)} pending"
        visit.out.say(("name", title(run)), state, *failed)
    if not visit.out.as_json and not workers(visit.store.reads):
        visit.out.say(("look", nobody_in_words(runs)))
