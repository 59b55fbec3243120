"""Steering workers by signals of the operating system, and what they tell when they are asked what they are doing.

Promises: an answer runs in a thread beside the program, one after the other, and never in the handler of a signal. What
is ignored stays ignored, as with `nohup`. What a dump says comes from the store and from the record of each process, so
that a process is told about even if it does not turn; its stacks it writes itself, without needing the interpreter.

Does not stop anything: that is `stopping`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ramify.engine.processes.crew import Crew
from ramify.engine.processes.os_signals import hear
from ramify.errors import RamifyError
from ramify.inspect.live import rows_of, width
from ramify.inspect.words import plural
from ramify.kernel.kernel import Kernel
from ramify.store.contract import Store
from ramify.store.record import running

#: How many tasks are named.
NAMED = 20
#: Seconds between the stacks of two processes, which write to the same place.
BETWEEN = 0.1


@contextmanager
def steered(answers: Mapping[int, Callable[[], None]]) -> Iterator[None]:
    """Answer these signals for as long as the block runs; in the main thread only, where signals are heard."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def go_on() -> None:
        while (number := heard.get()) is not None:
            # Whoever should be told may be gone, such as a terminal; the next one is answered all the same.
            with contextlib.suppress(OSError, ValueError, RamifyError):
                answers[number]()

    threading.Thread(target=go_on, name="ramify-steering", daemon=True).start()
    put_back = hear(answers, lambda number, frame: heard.put(number))
    try:
        yield
    finally:
        put_back()
        heard.put(None)


def steering(crew: Crew, store: Store, say: Callable[[str], None]) -> dict[int, Callable[[], None]]:
    """The answers of a crew."""

    def dump() -> None:
        say(f"supervisor {os.getpid()}: {plural(len(crew.members), 'worker process', 'worker processes')}")
        _dump_stacks()
        for member in crew.members:
            silent = f"last heard of {crew.silence_of(member):.1f} s ago"
            say(f"worker {member.child.pid}: {silent}; {at_hand(store, member.process)}")
            member.send(signal.SIGUSR1)
            threading.Event().wait(BETWEEN)

    return {
        signal.SIGHUP: crew.reload,
        signal.SIGUSR1: dump,
        signal.SIGTTIN: crew.add,
        signal.SIGTTOU: crew.remove,
    }


def steering_here(kernel: Kernel, store: Store, say: Callable[[str], None]) -> dict[int, Callable[[], None]]:
    """The answers of a program that works without processes of its own."""

    def dump() -> None:
        say(f"worker {os.getpid()}: {at_hand(store, kernel.sender.process)}")
        _dump_stacks()

    def refuse() -> None:
        say("there are no worker processes to replace, add or remove. Start with --processes N for that")

    return {signal.SIGUSR1: dump, **dict.fromkeys((signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU), refuse)}


def at_hand(store: Store, process: int | None) -> str:
    """Return what a process holds, and what of it it runs at this moment."""
    if not process:
        return "it is starting"
    held: Counter[str] = Counter()
    for row in rows_of(store.reads, owner=process):
        held[row.kind] += width(row)
    kinds = ", ".join(f"{many:,} {kind}" for kind, many in held.most_common(NAMED))
    tasks = [] if store.records is None else running(store.records, process)
    named = ", ".join(map(str, tasks[:NAMED])) + (", …" if len(tasks) > NAMED else "")
    return f"process {process:x} holds {kinds or 'nothing'}; runs {f'task {named}' if tasks else 'nothing'}"


def _dump_stacks() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
        faulthandler.dump_traceback(sys.stderr, all_threads=True)
