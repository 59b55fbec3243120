"""Ramify: a durable task engine in which running a task can create more tasks.

Tasks
    Engine       tasks and the store they are kept in: `engine = Engine("walk.db")`
    Tasks        a set of tasks without an engine, for `engine.include`
    Task         a task function: `measure.of("/usr")` makes a call of it, `measure("/usr")` just calls it
    Call         a call as a value: yield it, run it, enqueue it
    Backoff      how long retries wait
    Rate         how many tasks start in a while: `Rate("50/s", burst=20)`

Inside a task
    current      the attempt that runs here: its run, key, log, context, children
    Current      the type of that; a hook of `@engine.around` receives one
    Spawns       return type of a generator that yields children: `Spawns[int]`
    AsyncSpawns  the same for an async generator
    Return       the result of an async generator: `yield Return(total)`
    Stream       results of several tasks, as one argument
    Published    a publication with its topic, number, key and time: `Published[Order]`
    Failure      an error as it is stored
    Defer        raise it to try again later without using up an attempt
    Fatal        raise it to fail at once, without retries
    Skip         raise it to end as skipped

Runs and jobs
    Run          the handle of a run: results, errors, retry, cancel
    RunState     open, paused, done, failed, cancelled …
    Job          the handle of a job: result, cancel, then
    JobState     queued, running, done, failed, cancelled

DAGs, pipelines and schedules
    Dag          calls that wait for each other: `engine.dag("etl")`
    Node         a call in a DAG; `node.out` passes its result on
    Pipeline     steps under a name: `engine.pipeline("order", steps(receive).chain(charge))`
    steps        the first step of a pipeline or a branch
    Route        the way that a value takes at a `divert`
    Slot         a time of a schedule; a function given to `engine.schedule` receives one

Errors
    RamifyError  the base class of every error of Ramify

Elsewhere
    ramify.errors     every exception, drawn as a tree
    ramify.types      types that calls return and pass on
    ramify.signals    what `engine.listen` reports
    ramify.testing    a kit for tests of your tasks; its pytest fixture is `workbench`
    ramify.contrib    Django, OpenTelemetry, Prometheus

Names of `ramify.errors` and `ramify.types` can be imported from `ramify` too: `from ramify import RunFailed`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ramify.errors import *
    from ramify.front import *
    from ramify.types import *
else:
    # A name comes from the first of these that has it, when it is first used: `import ramify` alone loads none of them.
    # Type checkers do not see this function, or every misspelt name would be known to them.
    def __getattr__(name):
        if not name.startswith("_"):
            for home in map(import_module, ("ramify.errors", "ramify.front", "ramify.types")):
                if name in vars(home):
                    found = globals()[name] = vars(home)[name]
                    return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"

# A name belongs here if users write it in their programs: to make something, to annotate their own functions (`Slot`
# in a function that a schedule calls, `Current` in a hook, `Node` in a function that adds nodes), or to compare states.
# A type that they only get belongs into `ramify.types`, an exception into `ramify.errors`.
__all__ = [
    "AsyncSpawns",
    "Backoff",
    "Call",
    "Current",
    "Dag",
    "Defer",
    "Engine",
    "Failure",
    "Fatal",
    "Job",
    "JobState",
    "Node",
    "Pipeline",
    "Published",
    "RamifyError",
    "Rate",
    "Return",
    "Route",
    "Run",
    "RunState",
    "Skip",
    "Slot",
    "Spawns",
    "Stream",
    "Task",
    "Tasks",
    "__version__",
    "current",
    "steps",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
