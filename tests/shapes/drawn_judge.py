"""Compares a run of a drawn DAG with what must have come of it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ramify.model.event import Status, fold
from ramify.model.key import key_text
from ramify.model.run import RunState
from ramify.shapes.dag.own import GATHER
from ramify.store.contract import Store
from ramify.testing import oracle
from ramify.testing.paging import every
from tests.shapes.drawn import Drawing, carried_out, is_bad


def complaints(store: Store, run: int, drawing: Drawing) -> list[str]:
    """What is wrong with a run that has ended."""
    return [*oracle.check(store), *_differences(store, run, drawing)]


def _differences(store: Store, run: int, drawing: Drawing) -> Iterator[str]:
    ends, results, has_failed = carried_out(drawing)
    rows = every(lambda after: store.reads.tasks(run, after=after))
    tasks = {key_text(row.key): row.id for row in rows if row.key is not None}
    seqs: dict[int, int] = {}
    expected = RunState.FAILED if has_failed else RunState.DONE
    if (state := store.reads.run(run).state) is not expected:
        yield f"the run is {state.value}, not {expected.value}"
    for number, each in enumerate(drawing):
        task = tasks.get(f"n{number}")
        if task is None:
            yield f"n{number} is lost"
            continue
        events = store.reads.events(task, task)
        if sum(event.status.is_end for event in events) != 1:
            yield f"n{number} ended {[event.status.name for event in events]}"
        seqs[number] = events[-1].seq
        ended = fold(events).ended
        # The task of a map has done its part when its items are made; who waits for it waits for what gathers them.
        how = "done" if each.sort == "map" and all(ends[at] == "done" for at in each.all_needs) else ends[number]
        if ended is None or ended.name.lower() != how:
            yield f"n{number} ended as {ended}, not {how}"
        value = events[-1].value
        if ended is Status.DONE and each.sort != "map" and msgspec.json.decode(value or b"null") != results[number]:
            yield f"n{number} gave {value!r}, not {results[number]!r}"
        for other in each.all_needs:
            if other in seqs and seqs[other] >= seqs[number]:
                yield f"n{number} ended before n{other}, for which it waits"
    yield from _maps(store, run, drawing, ends, results)


def _maps(store: Store, run: int, drawing: Drawing, ends: list[str], results: list[object]) -> Iterator[str]:
    """Each item has one task, and each map that was expanded one that gathers it."""
    made = [each for each in drawing if each.sort == "map" and all(ends[at] == "done" for at in each.all_needs)]
    items = [item for each in made for item in _list(results[each.over or 0])]
    spare = [item for each in made if each.on_failed == "skip" for item in _list(results[each.over or 0])]
    counts = store.reads.counts(run)
    found = counts.get("piece", {})
    expected = {
        Status.DONE: sum(not is_bad(item) for item in items),
        Status.SKIPPED: sum(map(is_bad, spare)),
        Status.FAILED: sum(map(is_bad, items)) - sum(map(is_bad, spare)),
    }
    for status, many in expected.items():
        if found.get(status, 0) != many:
            yield f"{found.get(status, 0)} pieces ended as {status.name}, not {many}"
    gathered = sum(counts.get(GATHER, {}).get(status, 0) for status in (Status.DONE, Status.SKIPPED))
    if gathered != len(made):
        yield f"{len(made)} maps were gathered {gathered} times"


def _list(value: object) -> list[int]:
    return value if isinstance(value, list) else []
