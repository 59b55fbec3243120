"""Workers inside the user's own program: `with engine.working():`, or `async with`.

Promises: from the moment the block is entered, tasks of every run in the store are worked on in threads beside it; when
it is left, nothing new starts, what runs finishes within the grace period, and everything is saved. A stop that takes a
while says what it waits for. A signal ends the wait: what has finished is saved, the rest runs again, and whoever had
the signal before hears it as well.

Does not wait for runs to end: `run.wait()` inside the block does.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ramify.engine.processes.stopping import Stopped, stopping_well
from ramify.errors import RamifyError
from ramify.inspect.words import plural
from ramify.kernel.settings import Settings
from ramify.kernel.tuning import DEAF
from ramify.store import forks
from ramify.store.contract import Store
from ramify.store.record import running

if TYPE_CHECKING:
    from ramify.engine.processes.crew import Crew
    from ramify.engine.runtime import Runtime
    from ramify.kernel.kernel import Kernel

#: A stop that is over by then needs no word.
QUIET = 0.5
#: How many tasks are named that a stop waits for.
NAMED = 5
_HOW_TO_END = "SIGTERM or Ctrl-C ends the wait at once."
_ENDED = "The wait is over. Tasks that are not saved run again with the next start. Once more to quit at once."


class Working(AbstractContextManager["Working"]):
    """Workers that run as long as a block: in threads of this process, or in `processes` worker processes."""

    def __init__(self, runtime: Runtime, settings: Settings, processes: int = 0) -> None:
        self._runtime = runtime
        self._settings = settings
        self._processes = processes
        self._workers: Kernel | _Watched | None = None
        self._using = ExitStack()
        self._depth = forks.depth

    def __enter__(self) -> Self:
        self._depth = forks.depth
        with ExitStack() as using:
            using.enter_context(self._runtime.using_resources())
            self._workers = self._hire()
            self._workers.start()
            self._using = using.pop_all()
        self._runtime.workers.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._depth != forks.depth:
            # A forked child of the program leaves the block: neither the workers nor the resources are its own.
            return
        with self._ended_by_signals() as stopped:
            self._stop(_hears_signals())
        if kind is None or not issubclass(kind, KeyboardInterrupt | SystemExit):
            # One of these says already that the program was told to end.
            stopped.pass_on()

    def check(self) -> None:
        """Raise the error that broke the workers, if any, so that nobody waits for them forever."""
        workers = self._workers
        if workers is not None:
            workers.join(0)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._depth != forks.depth:
            return
        # Signals are heard in the thread of the event loop, if that is the main one, and not beside it.
        with self._ended_by_signals() as stopped:
            # Shielded: a cancelled program must still save what its workers have done.
            await asyncio.shield(asyncio.to_thread(self._stop, _hears_signals()))
        stopped.pass_on()

    def _ended_by_signals(self) -> AbstractContextManager[Stopped]:
        workers = self._workers
        assert workers is not None
        return stopping_well(lambda: workers.stop(0), self._runtime.complain, lambda: workers.stop(0), words=_ENDED)

    def _stop(self, a_signal_ends_it: bool) -> None:
        workers, self._workers = self._workers, None
        assert workers is not None
        self._runtime.workers.discard(self)
        try:
            workers.stop()
            if not workers.join(QUIET):
                how_to_end = f" {_HOW_TO_END}" if a_signal_ends_it else ""
                self._runtime.complain(f"{self._waits_for(sorted(workers.running))}{how_to_end}")
            workers.join()
        finally:
            self._using.close()

    def _waits_for(self, tasks: Sequence[int]) -> str:
        """Return what is waited for, and for how long at most."""
        most = f"at most {self._settings.grace:g} s"
        if not tasks:
            return f"Waiting {most} to save what is finished."
        names = ", ".join(map(self._name, tasks[:NAMED]))
        more = f" and {len(tasks) - NAMED:,} more" if len(tasks) > NAMED else ""
        which = f"{plural(len(tasks), 'task')} to finish: {names}{more}"
        return f"Waiting {most} for {which}. Unfinished tasks run again with the next start."

    def _name(self, task: int) -> str:
        with suppress(RamifyError):
            row = self._runtime.store.reads.task(task)
            if row is not None:
                return f"{row.kind} {task}"
        return str(task)

    def _hire(self) -> Kernel | _Watched:
        if not self._processes:
            return self._runtime.kernel(self._settings)
        from ramify.engine.processes.supervise import crew_of

        return _Watched(crew_of(self._runtime, self._processes, self._settings), self._runtime.store)


def _hears_signals() -> bool:
    return threading.current_thread() is threading.main_thread()


class _Watched:
    """A crew that is watched in a thread beside the program, so that children that die or hang are replaced."""

    def __init__(self, crew: Crew, store: Store) -> None:
        self._crew = crew
        self._store = store
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._watch, name="ramify-crew", daemon=True)

    @property
    def running(self) -> list[int]:
        """The tasks that run at this moment, by what each process notes of itself."""
        folder, members = self._store.records, self._crew.members
        return [task for each in members if folder and each.process for task in running(folder, each.process)]

    def start(self) -> None:
        self._crew.start()
        self._thread.start()

    def stop(self, grace: float | None = None) -> None:
        """Stop the children within their own grace period; a shorter one ends them at once."""
        if grace is None:
            self._crew.stop()
        else:
            self._crew.kill()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the children have ended; raises what kept them from working. False when they have not by then."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        # Never for long, for the thread that hears signals may be the one that waits.
        while self._thread.is_alive() and (left := end - time.monotonic()) > 0:
            self._thread.join(min(left, DEAF))
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def _watch(self) -> None:
        try:
            self._crew.wait()
        except BaseException as error:  # noqa: BLE001 - it is raised again where somebody waits for it
            self._failure = error
