"""The client: a real process that drives the verbs on a SQLite file, to be killed or frozen from outside.

    python -m tests.crash.client

It says `ready` when it is loaded and waits for a line on its input, a list in JSON: WORK, FILE, WITNESS, SEED and
options. An empty input ends it. Then it works:

    tree     work on the tree of SEED until its run has ended, then leave
    append   append single tasks from outside, going on where the witness says that an earlier client stopped
    hold     claim one task, say `held`, wait for another line, and only then commit it with a child

Options: `durability=power|process`, `chance=N` (decides how it splits its work), `freeze=N` (stop itself before the Nth
write to the log of the held commit), `mounted=FOLDER` (the store is on a small file system of its own: make it larger
whenever it is full).
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Literal

from ramify.errors import Reaped, StoreUnavailable
from ramify.model.addition import Addition
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.contract import Store
from ramify.store.sqlite import SqliteStore
from tests.crash.disk import GO, Answer, Change, Disk, Fault, Step, leave_free
from tests.crash.tree import grow
from tests.crash.witness import Said, Witness
from tests.crash.worker import Worker

#: How many tasks the appending client adds in all.
APPENDED = 300
APPEND_RUN = "appended"
HELD_KIND = "held"
#: A verb that is not answered after so many sends will not be.
PATIENCE = 50


def work_on_tree(store: Store, witness: Witness, seed: int, chance: int, mounted: str | None) -> None:
    """Work until the run has ended."""
    sends = 0
    if mounted is not None:
        leave_free(mounted, 32)

    def recover(error: StoreUnavailable, store: Store) -> Store:
        nonlocal sends
        sends += 1
        assert sends < PATIENCE, error
        if mounted is not None:
            assert "the disk is full" in str(error), error
            witness.say(Said.FULL, worker.process)
            leave_free(mounted, 128)
        return store

    order = tuple(Order)[seed % len(Order)]
    worker = Worker(store, witness, grow(seed), random.Random(chance), recover=recover, order=order)
    worker.work()
    worker.leave()
    witness.say(Said.FINISHED, worker.process)


def append_singly(store: Store, witness: Witness) -> None:
    """Append the tasks that no earlier client is known to have appended; the one in doubt goes again as it was."""
    run = store.start(NewRun(store.reserve(1), APPEND_RUN, endless=True)).run.id
    lines = witness.lines()
    acknowledged = sum(line.said is Said.APPEND_ACK for line in lines)
    begun = [line.seq for line in lines if line.said is Said.APPEND_BEGIN]
    for number in range(acknowledged, APPENDED):
        first = begun[number] if number < len(begun) else store.reserve(1)
        if number >= len(begun):
            witness.say(Said.APPEND_BEGIN, 0, seq=first)
        store.append([Addition(run, [NewTasks(first, "single", [b"%d" % number])])])
        witness.say(Said.APPEND_ACK, 0, seq=first)
    witness.say(Said.FINISHED, 0)


def hold(store: Store, disk: Disk, freeze: int) -> None:
    """Claim a task, and hand it in when told to; freeze in the middle of that if told so."""
    process = new_process_id()
    store.enter(NewProcess(process, os.getpid(), "crash"))
    store.beat(process)
    (claim,) = store.claim(Stamp(process, 1), Want(frozenset({HELD_KIND}), 1)).claims
    child = NewTasks(store.reserve(1), HELD_KIND, [b"2"], claim.tasks[0])
    print("held", process, flush=True)
    sys.stdin.readline()
    disk.fault = _freezing(freeze)
    try:
        answer = store.commit(Stamp(process, 2), [Part(claim.token, claim.tasks, children=[child])])
        print("refused" if answer.refused else "committed", flush=True)
    except Reaped:
        print("reaped", flush=True)


def _freezing(at: int) -> Fault:
    """A fault that is none: the process stops itself before a certain write to the log, until somebody continues it."""
    seen = 0

    def fault(step: Step) -> Answer:
        nonlocal seen
        if step.change is Change.WRITE and step.is_log:
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGSTOP)
        return GO

    return fault


def main(work: str, file: str, witness_file: str, seed: int, *given: str) -> None:
    """Open the store and do the work."""
    options = dict(option.split("=", 1) for option in given)
    durability: Literal["power", "process"] = "process" if options.get("durability") == "process" else "power"
    witness = Witness(Path(witness_file))
    with Disk(Path(file).parent, really_sync=True) as disk:
        store = SqliteStore(file, durability=durability)
        match work:
            case "tree":
                work_on_tree(store, witness, seed, int(options.get("luck", "0")), options.get("mounted"))
            case "append":
                append_singly(store, witness)
            case "hold":
                hold(store, disk, int(options.get("freeze", "0")))
            case _:
                raise AssertionError(f"no such work: {work}")
        store.close()


if __name__ == "__main__":
    print("ready", flush=True)
    word = sys.stdin.readline()
    if word:
        main(*json.loads(word))
