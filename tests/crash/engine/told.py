"""An engine whose store tells the witness: what is claimed, about to be committed, acknowledged, refused or in doubt.

The store under it is the real one. The lines stand in the order of the verbs of one process, so the judge of the store
level understands them. Worker processes get the same engine, because they import the same module.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from ramify import Engine
from ramify.engine.runtime import Runtime
from ramify.errors import Reaped, StoreUnavailable
from ramify.kernel.signals import Buried, Signal, StoreAway, StoreBack
from ramify.model.claim import Claimed, Want
from ramify.model.commit import Committed, Part
from ramify.model.process import Stamp
from ramify.store.contract import Store
from tests.crash.clients import WITNESS
from tests.crash.witness import Said, Witness

#: Verbs during which a process is not frozen: those that write, and the beat.
WRITING = frozenset(
    {"beat", "enter", "leave", "announce", "reap", "reserve", "start", "append", "stage", "release", "advance"}
    | {"cancel", "pause", "resume", "reopen", "note"}
)
_is_writing = threading.RLock()


def freeze() -> None:
    """Stop this process until somebody continues it, at a moment when none of its threads is inside a write.

    A process frozen inside a transaction holds up everybody else until it thaws; the store's own tests tell of that.
    """
    with _is_writing:
        # Sent to this very thread, it stops the process before the next line; sent to the process, some time later.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


class ToldStore:
    """A store that says what its client does. Everything else is passed on as it is."""

    def __init__(self, store: Store, witness: Witness) -> None:
        self._store = store
        self._witness = witness

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in WRITING:
            return found

        def verb(*args: Any, **kwargs: Any) -> Any:
            with _is_writing:
                return found(*args, **kwargs)

        return verb

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        """Claim, and say what came."""
        with _is_writing:
            claimed = self._store.claim(stamp, want)
            self._took(stamp, claimed)
        return claimed

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        """Commit, saying before what is handed in and after what the store said."""
        with _is_writing:
            return self._commit(stamp, parts, then_claim)

    def _commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None) -> Committed:
        ends = {part.token: tuple(part.ended()) for part in parts}
        for token, tasks in ends.items():
            self._witness.say(Said.COMMIT_BEGIN, stamp.process, token=token, tasks=tasks)
        try:
            answer = self._store.commit(stamp, parts, then_claim)
        except StoreUnavailable:
            self._witness.say(Said.COMMIT_ERR, stamp.process, token=parts[0].token)
            raise
        except Reaped:
            for token, tasks in ends.items():
                self._witness.say(Said.REFUSED, stamp.process, token=token, tasks=tasks)
            raise
        for token, tasks in ends.items():
            said = Said.REFUSED if token in answer.refused else Said.COMMIT_ACK
            self._witness.say(said, stamp.process, token=token, tasks=tasks, seq=answer.seq)
        self._took(stamp, answer.claimed)
        return answer

    def _took(self, stamp: Stamp, claimed: Claimed) -> None:
        for claim in claimed.claims:
            self._witness.say(Said.CLAIM, stamp.process, token=claim.token, tasks=tuple(claim.tasks))


class _ToldInside(Runtime):
    """The inside of an engine, with a store that tells."""

    def __init__(self, tasks: ToldEngine, url: str | os.PathLike[str]) -> None:
        super().__init__(tasks, url)
        self._engine = tasks
        self._told: tuple[Store, Store] | None = None

    @property
    def silent(self) -> Store:
        """The store itself."""
        return super().store

    @property
    def store(self) -> Store:
        """The store, telling."""
        inner = self.silent
        if self._told is None or self._told[0] is not inner:
            self._told = inner, cast(Store, ToldStore(inner, self._engine.witness))
        return self._told[1]


class ToldEngine(Engine):
    """An engine with a witness, which is beside the store unless told otherwise."""

    witness_file: Path | None = None
    _witness: Witness | None = None

    def __init__(self, store: str | os.PathLike[str]) -> None:
        super().__init__(store)
        self._runtime: _ToldInside = _ToldInside(self, store)

    @property
    def witness(self) -> Witness:
        """The witness."""
        file = self.witness_file or Path(os.fspath(self._runtime.url)).parent / WITNESS
        if self._witness is None or self._witness.path != file:
            self._witness = Witness(file)
        return self._witness

    def warm_up(self) -> None:
        """Open every connection now: a process frozen while it opens one holds up the others as well."""
        store = self._runtime.silent
        store.reserve(1)
        store.reads.processes()
        store.wait(0, 0)

    def note_stop(self, text: str) -> None:
        """Pass on what the engine says about a stop, just before it begins."""
        if text.startswith("stopping"):
            self.witness.say(Said.STOPPING, os.getpid())

    def hear(self, signal: Signal) -> None:
        """Say what a kernel signals about the store and the dead."""
        match signal:
            case StoreAway():
                self.witness.say(Said.AWAY, os.getpid())
            case StoreBack():
                self.witness.say(Said.BACK, os.getpid())
            case Buried(processes, tasks):
                self.witness.say(Said.BURIED, os.getpid(), tasks=processes, seq=tasks)
            case _:
                pass
