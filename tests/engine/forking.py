"""Tasks that fork: a program of its own, because a child that went on would be a copy of the test run.

`python -m tests.engine.forking MODE FOLDER` runs them all and prints what became of each child as JSON. Every handler
that is entered leaves a line with the number of its process in a file beside the store.
"""

import asyncio
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ramify import AsyncSpawns, Engine, Return, Spawns
from ramify.engine.tasks.task import Task
from ramify.kernel.tuning import PIECE

#: Far above what a child needs to end, and far below what a test may take.
LIMIT = 20.0
WITNESS = "witness"
#: How a child leaves its handler.
WAYS = ("exit", "text", "raise", "return")
#: How many threads, and how many processes.
MODES = {"threads": (None, 0), "inline": (0, 0), "processes": (None, 1)}

engine = Engine("forking.db")
ticking = threading.Event()
waited = threading.Event()


def folder() -> Path:
    return Path(os.fspath(engine._runtime.url)).parent


def enter(label: str) -> None:
    with open(folder() / WITNESS, "a") as file:
        file.write(f"{label} {os.getpid()}\n")


def fork(label: str) -> int:
    """Fork; what the child writes to its standard error goes to a file."""
    child = os.fork()
    if not child:
        os.dup2(os.open(folder() / f"{label}.err", os.O_WRONLY | os.O_CREAT), 2)
    return child


def leave(how: str) -> str:
    match how:
        case "exit":
            sys.exit(7)
        case "text":
            sys.exit("gone with a word")
        case "raise":
            raise KeyError("planted")
        case _:
            return "what a forked child returns goes nowhere"


def end_of(child: int, label: str) -> str:
    """How a child ended, and what it wrote; it is killed when it does not."""
    end, never = time.monotonic() + LIMIT, threading.Event()
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            break
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "did not end"
        never.wait(0.002)
    written = (folder() / f"{label}.err").read_text().splitlines()
    return f"{os.waitstatus_to_exitcode(status)} {written[-1] if written else ''}".rstrip()


def witnessed() -> Iterator[None]:
    """A hook: its end is for the parent only, or a child would close what is not its own."""
    try:
        yield
    finally:
        enter("tick")


@engine.task(retries=0)
def leaf(label: str) -> str:
    enter(f"leaf-{label}")
    return ""


@engine.task(retries=0)
def grain(n: int) -> None:
    return


@engine.task(retries=0)
def plain(how: str) -> str:
    label = f"plain-{how}"
    enter(label)
    child = fork(label)
    return end_of(child, label) if child else leave(how)


@engine.task(retries=0)
def generator(how: str) -> Spawns[str]:
    label = f"generator-{how}"
    enter(label)
    yield leaf.of(f"{label}-before")
    child = fork(label)
    ended = end_of(child, label) if child else leave(how)
    yield leaf.of(f"{label}-after")
    return ended


@engine.task(retries=0)
def wide(how: str) -> Spawns[str]:
    """More children than a task commits with its end: the child yields into the staging of its parent."""
    label = f"wide-{how}"
    enter(label)
    for n in range(PIECE):
        yield grain.of(n)
    child = fork(label)
    ended = end_of(child, label) if child else leave(how)
    yield grain.of(PIECE)
    return ended


@engine.task(retries=0)
async def coroutine(how: str) -> str:
    label = f"coroutine-{how}"
    enter(label)
    child = fork(label)
    return end_of(child, label) if child else leave(how)


@engine.task(retries=0)
async def stream(how: str) -> AsyncSpawns[str]:
    label = f"stream-{how}"
    enter(label)
    yield leaf.of(f"{label}-before")
    child = fork(label)
    ended = end_of(child, label) if child else leave(how)
    yield leaf.of(f"{label}-after")
    yield Return(ended)


@engine.task(retries=0)
async def ticker() -> str:
    """Always ready on the event loop, until the child of `waiting` has ended."""
    enter("ticker")
    while not waited.is_set():
        ticking.set()
        enter("tick")
        await asyncio.sleep(0)
    return ""


@engine.task(retries=0)
async def waiting(how: str) -> str:
    """The child awaits something, by itself or in a coroutine beside it."""
    label = f"waiting-{how}"
    enter(label)
    while not ticking.is_set():
        await asyncio.sleep(0)

    async def beside() -> str:
        child = fork(label)
        if not child:
            for _ in range(100):
                await asyncio.sleep(0)
            enter(f"{label}-went-on")
        return end_of(child, label)

    try:
        return await (asyncio.create_task(beside()) if how == "beside" else beside())
    finally:
        if how == "beside":
            waited.set()


@engine.task(retries=0)
def signals(how: str) -> str:
    """What answers signals in a forked child, and which of them it does not let through."""
    enter("signals")
    child = fork("signals")
    if child:
        return end_of(child, "signals")
    answers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    expected = [signal.SIG_DFL, signal.default_int_handler]
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    sys.exit(0 if answers == expected and not blocked else f"{answers} {blocked}")


@engine.task(retries=0)
def terminated(how: str) -> str:
    """Processes of a library that are ended as soon as they are started."""
    enter("terminated")
    ends = set()
    for _ in range(5):
        process = multiprocessing.get_context("fork").Process(target=signal.pause)
        process.start()
        process.terminate()
        process.join(LIMIT)
        ends.add(process.exitcode)
        process.kill()
    return " ".join(map(str, ends))


@engine.task(retries=0)
def logged(how: str) -> str:
    """A warning that nobody else handles, from a child."""
    enter("logged")
    child = fork("logged")
    if not child:
        logging.getLogger("somebody").warning("said by a child")
        sys.exit(0)
    return end_of(child, "logged")


def main(mode: str, place: str) -> None:
    engine._runtime.url = f"{place}/forking.db"
    if mode == "threads":
        engine.around(witnessed)
    ways: dict[Task[[str], str, Any], Sequence[str]] = dict.fromkeys((plain, generator, coroutine, stream), WAYS)
    ways |= {signals: ("",), terminated: ("",), logged: ("",), wide: ("return",)}
    if mode != "inline":
        ways[waiting] = ("itself", "beside")
    calls = [task.of(how) for task, several in ways.items() for how in several]
    threads, processes = MODES[mode]
    run = engine.run(
        [*calls, *([] if mode == "inline" else [ticker.of()])], order="any", threads=threads, processes=processes
    )
    ends = {
        f"{task.kind}-{how}".rstrip("-"): end
        for task, several in ways.items()
        for how, end in zip(several, run.results(task), strict=True)
    }
    print(json.dumps({"ends": ends, "added": run.counts.added, "done": run.counts.done}))


if __name__ == "__main__":
    main(*sys.argv[1:])
