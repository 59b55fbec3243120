"""The protocol keeps its promises in every reachable state, and every tempting shortcut breaks one.

A right configuration must pass, and must have taken every step it is there for: a model that does nothing passes too.
A shortcut must fail, and break the very promise its case names. Counts of states go to the reports.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.protocol.catalogue import CASES
from tests.protocol.checker import Case, explore
from tests.protocol.core import Core
from tests.protocol.core_cases import CASES as CORE_CASES
from tests.protocol.limit import Limit
from tests.protocol.limit_cases import RIGHT as LIMIT_CASES
from tests.protocol.scripts import Interleaved

#: the shortcuts that the rules were written against; none may be lost
KNOWN_SHORTCUTS = {
    "core/no-token-guard",
    "core/token-lookup-late-delivery",
    "core/token-lookup-partial-commit",
    "core/token-absent-means-applied",
    "core/token-absent-means-refused",
    "core/number-read-not-consumed",
    "core/blind-resend",
    "core/claim-reply-forgotten",
    "core/claim-by-reaped-process",
    "core/reap-whole-range",
    "core/reap-process-row-first",
    "core/reap-from-snapshot",
    "core/seal-when-claim-is-empty",
    "core/cancel-deletes-queued",
    "core/cancel-once-no-sweep",
    "core/cancel-no-sweep-after-reap",
    "core/subtree-cancel-by-snapshot",
    "core/children-after-commit",
    "core/children-before-commit",
    "core/split-in-two-transactions",
    "core/retry-into-own-round",
    "core/anti-join-any-life",
    "seal/in-commit",
    "seal/two-tables",
    "seal/no-append-lock",
    "join/insert-count",
    "join/fire-later",
    "join/retry-counter",
    "join/empty",
    "dedupe/count-all",
    "dedupe/count-made",
    "dedupe/waiter",
    "stage/infer",
    "stage/unguarded-append",
    "cancel-task/look-then-write",
    "batch/before-guard",
    "open-transaction/no-limit",
    "beat/answered",
    "beat/none",
    "outage/at-once",
}

#: the step by which each fault of the core model shows
STEP_OF_FAULT = {
    "crash": "is killed",
    "freeze": "is frozen",
    "lost": "loses the connection over its claim",
    "false_reap": "is reaped though alive",
    "take_back": "loses its row, and only its row: somebody retries",
    "release": "releases",
    "fail": "commits (some failed)",
    "defer": "commits (some deferred)",
    "cancel_run": "the run is cancelled",
    "cancel_tree": "somebody cancels the subtree of",
    "cancel_task": "somebody cancels task",
    "reopen": "the failed tasks are reopened",
}

#: the step by which each fault of the limits shows, and each thing that may happen to their places
STEPS_OF_LIMITS = {
    "crash": {"is killed", "is reaped"},
    "freeze": {"is frozen", "thaws", "has its late commit refused, as it was reaped"},
    "lost": {"has its lost claim carried out late", "sends its claim again", "has its lost commit carried out late"},
    "false_reap": {"is reaped though alive", "has its late commit refused, as it was reaped"},
    "release": {"releases"},
    "defer": {"defers", "due are"},
    "close": {"comes too soon for", "defers and closes the total, with", "the total opens"},
    "rate": {"comes too soon for"},
    "pause": {"run 0 is paused", "run 0 is resumed"},
    "cancel": {"run 0 is cancelled", "run 0 is swept"},
    "cancel_task": {"cancelled while it waits is"},
}


def of_kind(chosen: Callable[[Case], bool]) -> list[object]:
    full = (pytest.mark.full, pytest.mark.timeout(900))
    return [pytest.param(case, id=case.name, marks=full if case.full else ()) for case in CASES if chosen(case)]


def steps_it_is_there_for(model: object) -> set[str]:
    if isinstance(model, Core):
        faults = model.faults._asdict()
        return {"claims", "commits"} | {STEP_OF_FAULT[name] for name, budget in faults.items() if budget}
    if isinstance(model, Limit):
        return {"claims", "commits", "finds no room for"}.union(*(STEPS_OF_LIMITS.get(each, ()) for each in model.can))
    if isinstance(model, Interleaved):
        return {f"{script.name}: {statement.says}" for script in model.scripts for statement in script.statements}
    return set()


@pytest.mark.parametrize("case", of_kind(lambda case: not case.breaks))
def test_the_protocol_keeps_every_promise(case: Case, record_property: Callable[[str, object], None]) -> None:
    model = case.make()
    verdict = explore(model)
    record_property("states", verdict.states)
    record_property("edges", verdict.edges)
    print(f"{case.name}: {verdict.states:,} states, {verdict.edges:,} edges, {verdict.seconds:.1f} s")
    assert verdict.kind == "ok", "\n".join([verdict.reason, *verdict.trace])
    assert steps_it_is_there_for(model) <= verdict.steps_used


@pytest.mark.parametrize("case", of_kind(lambda case: bool(case.breaks)))
def test_a_tempting_shortcut_breaks_the_promise_it_is_known_for(case: Case) -> None:
    verdict = explore(case.make())
    print("\n".join([case.why, verdict.reason, *verdict.trace]))
    assert (verdict.kind, verdict.breaks) == (case.kind, case.breaks)


def test_no_known_shortcut_has_been_lost() -> None:
    failing = {case.name for case in CASES if case.breaks}
    assert len(KNOWN_SHORTCUTS) == 40
    assert failing >= KNOWN_SHORTCUTS


def test_every_case_has_a_name_of_its_own_and_one_sentence() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.why.endswith(".") and "\n" not in case.why for case in CASES)


def test_some_shortcuts_break_liveness_only() -> None:
    """A checker of states alone would pass these, so the second half of ours must be at work."""
    assert sum(case.kind == "liveness" for case in CASES if case.name in KNOWN_SHORTCUTS) == 12


def futures(model: Any, state: Any) -> set[tuple[bool, object]]:
    """Where the steps lead, without those that change nothing: a late request that is refused is such a step."""
    found = {(fault, model.canonical(after)) for _label, fault, after in model.moves(state)}
    return {step for step in found if step[1] != model.canonical(state)}


@pytest.mark.parametrize("case", [*CORE_CASES, *LIMIT_CASES], ids=lambda case: case.name)
def test_a_state_and_its_canonical_form_have_the_same_futures(case: Case, seed: random.Random) -> None:
    """The reduction is what makes the models small; if it merged too much, it would hide counterexamples."""
    model: Any = case.make()
    for _walk in range(10):
        state = model.start()
        for _step in range(30):
            assert futures(model, state) == futures(model, model.canonical(state))
            moves = list(model.moves(state))
            if not moves or model.wrong(state):
                break
            state = seed.choice(moves)[2]
