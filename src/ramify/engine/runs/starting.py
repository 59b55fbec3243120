"""How an engine starts a run: with what was asked, said in one line, and shown while it is worked on.

Does not decide what a start means: `shapes/start.py` does.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from ramify.engine.runs.launched_runs import IN_ORDER
from ramify.shapes.start import Begun, StartRequest, begin

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime


def begin_run(runtime: Runtime, ask: StartRequest) -> Begun:
    """Begin a run, or go on with one, and say which."""
    store = runtime.store
    begun = begin(store, ask, lambda many: runtime.reserve_ids(many, younger=IN_ORDER))
    about = store.describe()
    runtime.say(f"{begun.said} [{about.name} {about.location}: keeps {about.keeps}; lacks {about.lacks}]")
    return begun


def showing(runtime: Runtime, run: int, progress: bool, *, in_place: bool) -> AbstractContextManager[object]:
    """Show the progress of a run, if that is wanted, beside the work on it or in its own thread."""
    if not progress:
        return nullcontext()
    from ramify.inspect.progress import beside

    # A debugger needs the terminal for itself when everything runs in this thread.
    return beside(runtime.store, run, runtime.say, in_place=in_place)
