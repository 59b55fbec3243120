"""Asking for a run: what somebody wrote in `run` and `start` as a request, and its beginning in the store."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ramify.engine.runs.busy import Busy
from ramify.engine.runs.launched_runs import IN_ORDER
from ramify.engine.runs.leading import Leading, followed
from ramify.engine.runs.run import Run
from ramify.engine.runtime import Runtime
from ramify.engine.validation import order_of
from ramify.shapes.bounds import Bounds
from ramify.shapes.start import Begun, StartRequest, begin
from ramify.shapes.table import plan_of


def asked(
    runtime: Runtime,
    busy: Busy,
    root: object,
    order: str | None,
    follows: Leading | tuple[Leading, int] | None,
    bounds: Bounds,
    name: str | None,
    again: bool,
    params: object,
    *,
    stays: bool,
) -> StartRequest:
    """Return what is asked for; ConfigError for a root that the engine cannot run."""
    table = runtime.table()
    tasks = table.values() if inspect.isgenerator(root) else ()
    shape, plan = plan_of(root, {inspect.unwrap(task.fn).__code__ for task in tasks})
    runtime.check_known(plan.calls, table)
    chosen = plan.order if order is None else order_of(order)
    older = {task.kind: task.aliases for task in table.values()}
    runs = busy.runs(runtime.identity)
    leader = None if follows is None else followed(runtime.store.reads, follows)
    return StartRequest(
        shape, plan, name=name, again=again, order=chosen, params=params, follows=leader, older=older, busy=runs,
        bounds=bounds, headers=runtime.headers_here(), stays=stays,
    )  # fmt: skip


def begun_as(runtime: Runtime, ask: StartRequest) -> Begun:
    """Begin the run that is asked for, and say so."""
    store = runtime.store
    begun = begin(store, ask, lambda many: runtime.reserve_ids(many, younger=IN_ORDER))
    about = store.describe()
    runtime.say(f"{begun.said} [{about.name} {about.location}: keeps {about.keeps}; lacks {about.lacks}]")
    return begun


def showing(run: Run[Any], progress: bool, *, in_place: bool) -> AbstractContextManager[object]:
    """Show the progress of a run while a block works on it."""
    if not progress:
        return nullcontext()
    from ramify.inspect.progress import beside

    # A debugger needs the terminal for itself when everything runs in this thread.
    return beside(run._runtime.store, run.id, run._runtime.say, in_place=in_place)
