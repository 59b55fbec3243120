"""Workers inside the user's own program: `with engine.working():`, or `async with`.

Promises: from the moment the block is entered, tasks of every run in the store are worked on in threads beside it; when
it is left, nothing new starts, what runs finishes within the grace period, and everything is saved.

Does not wait for runs to end: `run.wait()` inside the block does.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ramify.kernel.settings import Settings
from ramify.store import forks

if TYPE_CHECKING:
    from ramify.engine.crew import Crew
    from ramify.engine.inside import Inside
    from ramify.kernel.kernel import Kernel


class Working(AbstractContextManager["Working"]):
    """Workers for as long as a block runs: threads of this process, or with `processes` so many processes."""

    def __init__(self, inside: Inside, settings: Settings, processes: int = 0) -> None:
        self._inside = inside
        self._settings = settings
        self._processes = processes
        self._workers: Kernel | _Watched | None = None
        self._using = ExitStack()
        self._depth = forks.depth

    def __enter__(self) -> Self:
        self._depth = forks.depth
        with ExitStack() as using:
            using.enter_context(self._inside.using_resources())
            self._workers = self._hire()
            self._workers.start()
            self._using = using.pop_all()
        self._inside.workers.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._depth != forks.depth:
            # A forked child of the program leaves the block: neither the workers nor the resources are its own.
            return
        workers, self._workers = self._workers, None
        assert workers is not None
        self._inside.workers.discard(self)
        try:
            workers.stop()
            workers.join()
        finally:
            self._using.close()

    def check(self) -> None:
        """Raise what broke the workers, if something did, so that nobody waits for them for ever."""
        workers = self._workers
        if workers is not None:
            workers.join(0)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Shielded: a cancelled program must still save what its workers have done.
        await asyncio.shield(asyncio.to_thread(self.__exit__, kind, error, trace))

    def _hire(self) -> Kernel | _Watched:
        if not self._processes:
            return self._inside.kernel(self._settings)
        from ramify.engine.supervise import crew_of

        return _Watched(crew_of(self._inside, self._processes, self._settings))


class _Watched:
    """A crew that is watched in a thread beside the program, so that children that die or hang are replaced."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._watch, name="ramify-crew", daemon=True)

    def start(self) -> None:
        self._crew.start()
        self._thread.start()

    def stop(self) -> None:
        self._crew.stop()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the children have ended; raises what kept them from working."""
        self._thread.join(timeout)
        if self._failure is not None:
            raise self._failure

    def _watch(self) -> None:
        try:
            self._crew.wait()
        except BaseException as error:  # noqa: BLE001 - it is raised again where somebody waits for it
            self._failure = error
