"""Stops and deaths as a program meets them: signals, a parent that is killed, children that die or hang, forks."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import pytest

from ramify.engine.processes.crew import Crew
from ramify.engine.processes.member import Orders
from ramify.kernel.signals import Buried, Replaced, Signal, Signals
from ramify.model.process import NewProcess, new_process_id
from tests.crash.clients import LIMIT, STORE, wait_until
from tests.crash.engine.scene import Scene, children_of, is_alive, let_pass
from tests.crash.witness import Said
from tests.crash.worker import RUN_NAME

#: Far below the 60 seconds after which a silent process is declared dead, far above what a busy machine needs.
SOON = 20.0
PLACE = "tests.crash.engine.program:engine"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, 1)])
def test_a_signal_lets_what_runs_finish_and_the_rest_wait(number: signal.Signals, code: int, scene: Scene) -> None:
    program = scene.play("waiting", 6, "threads=2", started=2)
    program.send(number)
    wait_until(lambda: scene.said(Said.STOPPING), "the stop to begin")
    scene.go()
    # Python ends a program that does not catch KeyboardInterrupt by the signal itself.
    assert program.code_within(LIMIT) in (code, -number)
    ended = len(scene.said(Said.EFFECT))
    assert ended < 6
    assert scene.crashes() == 0
    assert all(process.reaped for process in scene.store.reads.processes())
    assert scene.play("waiting", 6).ends_within(LIMIT)
    scene.check_done(6)
    assert len(scene.said(Said.EFFECT)) == 6, "what had finished within the grace period was run again"


@pytest.mark.parametrize("how", [("threads=2",), ("processes=2", "threads=1")], ids=["threads", "processes"])
def test_a_second_signal_quits_at_once_blames_nobody_and_loses_nothing(how: tuple[str, ...], scene: Scene) -> None:
    program = scene.play("waiting", 4, *how, started=2)
    workers = children_of(program.pid) or [program.pid]
    program.send(signal.SIGINT)
    # The first one must have been heard before the second is sent, or both are one.
    wait_until(lambda: scene.said(Said.STOPPING), "the stop to begin")
    program.send(signal.SIGINT)
    assert program.code_within(SOON) == 128 + signal.SIGINT
    wait_until(lambda: not any(map(is_alive, workers)), "the workers to go", SOON)
    undertaker = NewProcess(new_process_id())
    scene.store.enter(undertaker)
    wait_until(lambda: scene.store.reap(undertaker.id, 60.0).processes, "the burial")
    scene.store.leave(undertaker.id)
    assert scene.crashes() == 0
    scene.go()
    assert scene.play("waiting", 4).ends_within(LIMIT)
    scene.check_done(4)


def test_children_stop_when_their_parent_is_killed(scene: Scene) -> None:
    parent = scene.play("waiting", 6, "processes=2", "threads=1", started=2)
    crew = children_of(parent.pid)
    assert len(crew) == 2
    parent.kill()
    # The end of their input tells them, at once; what runs may finish, and nothing else begins.
    let_pass(0.5)
    scene.go()
    wait_until(lambda: not any(map(is_alive, crew)), "the children to go", SOON)
    assert len(scene.said(Said.START)) == 2
    assert scene.crashes() == 0
    assert scene.play("waiting", 6, "processes=2").ends_within(LIMIT)
    scene.check_done(6)
    assert len(scene.said(Said.EFFECT)) == 6


def test_a_forked_child_does_not_keep_its_dead_parent_alive(scene: Scene) -> None:
    parent = scene.play("forking", 0, started=1)
    (line,) = scene.said(Said.START)
    try:
        parent.kill()
        assert is_alive(line.seq), "the fork is gone, so this shows nothing"
        began = time.monotonic()
        other = scene.play("forking", 0, started=1)
        assert time.monotonic() - began < SOON
        scene.go()
        assert other.ends_within(LIMIT)
    finally:
        with suppress(ProcessLookupError):
            os.kill(line.seq, signal.SIGKILL)
    scene.check_done(1)


class Watched:
    """A crew in this process, and what it says about its children."""

    def __init__(self, scene: Scene, run: int, *, size: int = 2, hung_after: float = 60.0) -> None:
        self.replaced: list[str] = []
        self.offered: list[int] = []
        self.said: list[str] = []
        signals = Signals()
        signals.listen(self._hear)
        orders = Orders(address=PLACE, runs=(run,), until_ended=True, threads=1, beat_every=0.05)
        url = str(scene.folder / STORE)
        self.crew = Crew(orders, size, scene.store, signals, url=url, hung_after=hung_after)

    def _hear(self, signal: Signal) -> None:
        match signal:
            case Replaced(_, why):
                self.replaced.append(why)
            case Buried(_, tasks):
                self.offered.append(tasks)


@pytest.fixture
def waiting_run(scene: Scene) -> int:
    from tests.crash.engine import program

    program.open_at(str(scene.folder / STORE), None, {})
    roots = [program.waiting.of(str(scene.folder), number) for number in range(6)]
    run = program.engine.start(roots, name=RUN_NAME)
    program.engine.close()
    return run.id


def test_children_that_are_ended_at_once_are_blamed_for_nothing_though_nobody_asked_them_to_stop(
    scene: Scene, waiting_run: int
) -> None:
    watched = Watched(scene, waiting_run)
    watched.crew.start()
    wait_until(lambda: len(scene.said(Said.START)) == 2, "both to work")
    watched.crew.kill()
    watched.crew.wait()
    assert sum(watched.offered) >= 2
    assert scene.crashes() == 0


def test_a_dead_child_is_noticed_at_once_and_replaced(scene: Scene, waiting_run: int) -> None:
    watched = Watched(scene, waiting_run)
    watched.crew.start()
    wait_until(lambda: len(scene.said(Said.START)) == 2, "both to work")
    victim = watched.crew.pids[0]
    os.kill(victim, signal.SIGKILL)
    # Nothing but the operating system can have told it: silence would take a minute.
    wait_until(lambda: watched.replaced, "the death to be noticed", SOON)
    wait_until(lambda: len(watched.crew.pids) == 2 and victim not in watched.crew.pids, "another child", SOON)
    scene.go()
    watched.crew.wait()
    assert watched.replaced == ["it was killed (SIGKILL)"]
    assert sum(watched.offered) >= 1
    scene.check_done(6)


def test_a_hung_child_is_killed_and_replaced(scene: Scene, waiting_run: int) -> None:
    watched = Watched(scene, waiting_run, hung_after=3.0)
    watched.crew.start()
    wait_until(lambda: len(scene.said(Said.START)) == 2, "both to work")
    victim = watched.crew.pids[0]
    os.kill(victim, signal.SIGSTOP)
    scene.go()
    watched.crew.wait()
    assert any("not heard of" in why for why in watched.replaced)
    assert not is_alive(victim)
    scene.check_done(6)
