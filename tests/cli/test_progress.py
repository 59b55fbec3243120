"""Live progress: what each look shows, wherever it is shown."""

import json
import threading
from io import StringIO

import pytest

from ramify.cli.out import Out
from ramify.cli.progress import JsonLines, as_json
from ramify.errors import RamifyError, StoreBroken, StoreUnavailable
from ramify.inspect.progress import Lines, Panel, Progress, lines_of
from ramify.inspect.rate import Moment, ObservedPace
from ramify.inspect.status import RunStatus, status_of
from ramify.model.event import Status
from tests.cli.conftest import RAW, Desk


def texts(status: RunStatus, pace: ObservedPace) -> list[str]:
    return ["".join(p if isinstance(p, str) else p[1] for p in line) for line in lines_of(status, pace)]


def paced(added: int, ended: int) -> ObservedPace:
    pace = ObservedPace()
    pace.note(Moment(0, 0, 0))
    pace.note(Moment(10, added, ended))
    return pace


def growing(desk: Desk) -> int:
    run = desk.house.run(desk.house.tasks(8), name="walk")
    worker = desk.house.worker()
    claim = worker.take(5)
    worker.done(claim, claim.tasks[:2], children=[desk.house.tasks(4)])
    worker.end(claim, claim.tasks[2:3], status=Status.FAILED)
    return run


def test_a_look_tells_round_counts_rates_what_it_waits_for_and_the_end(desk: Desk) -> None:
    status = status_of(desk.house.store, growing(desk))
    head, counts, speed, waits = texts(status, paced(100, 200))
    assert head.startswith("walk · open, running · round 0 · ")
    assert counts == "  2 done · 9 pending · 1 failed"
    assert speed == "  10/s added, 20/s ended · ETA 0.9 s"
    assert waits == "  round 0 waits for 2 held, 3 ready"


def test_no_end_is_foretold_while_it_grows_faster(desk: Desk) -> None:
    status = status_of(desk.house.store, growing(desk))
    assert "ETA" not in "".join(texts(status, paced(300, 200)))
    assert as_json(status, paced(300, 200))["eta_seconds"] is None


def test_an_ended_run_tells_its_speed_on_the_whole(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks(3), name="walk")
    desk.house.finish(run)
    assert any("on the whole" in line for line in texts(status_of(desk.house.store, run), ObservedPace()))


def test_elsewhere_than_on_a_terminal_a_look_is_one_line(desk: Desk) -> None:
    file = StringIO()
    display = Lines(Out(file=file).say)
    status = status_of(desk.house.store, growing(desk))
    display.show(status, paced(100, 200))
    display.show(status, paced(100, 200))
    lines = file.getvalue().splitlines()
    assert len(lines) == 2
    assert "2 done" in lines[0]
    assert "ETA" in lines[0]


def test_for_programs_a_look_is_one_object(desk: Desk) -> None:
    file = StringIO()
    JsonLines(Out(as_json=True, file=file)).show(status_of(desk.house.store, growing(desk)), paced(100, 200))
    (line,) = file.getvalue().splitlines()
    assert json.loads(line)["ended_per_second"] == 20


def test_on_a_terminal_lines_are_written_in_place_and_nothing_hostile_gets_through(desk: Desk) -> None:
    name = "x\x1b]0;owned\x07\u202e[bold]"
    run = desk.house.run(desk.house.tasks(), name=name)
    file = StringIO()
    panel = Panel(file)
    for _ in range(2):
        panel.show(status_of(desk.house.store, run), ObservedPace())
    panel.close()
    shown = file.getvalue()
    assert "x\\x1b]0;owned\\x07\\u202e[bold]" in shown
    assert "\x1b]" not in shown
    assert not [raw for raw in RAW if raw in shown and raw not in "\x1b\r"]


class Counted:
    """A display that says when it has been shown something."""

    def __init__(self) -> None:
        self.looks: list[RunStatus] = []
        self.shown = threading.Semaphore(0)
        self.closed = 0

    def show(self, status: RunStatus, pace: ObservedPace) -> None:
        self.looks.append(status)
        self.shown.release()

    def close(self) -> None:
        self.closed += 1


def test_beside_the_work_it_looks_until_the_run_has_ended(desk: Desk) -> None:
    run = growing(desk)
    display = Counted()
    with Progress(desk.house.client(), run, display, every=0.01) as progress:
        assert display.shown.acquire(timeout=30)
        desk.house.store.cancel(run)
        desk.house.workers[0].store.leave(desk.house.workers[0].process)
        desk.house.settle(run)
        last = progress.join()
    assert last is not None
    assert last.run.state.is_end
    assert [look.run.state.is_end for look in display.looks].count(True) == 1
    assert display.closed == 1


def test_when_the_work_stops_early_the_last_look_is_shown(desk: Desk) -> None:
    run = growing(desk)
    display = Counted()
    with Progress(desk.house.client(), run, display, every=60, first_after=60):
        assert display.looks == []
    assert (len(display.looks), display.closed) == (1, 1)


def test_a_store_that_is_away_does_not_end_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    run = growing(desk)
    desk.house.store.cancel(run)
    answers = iter([StoreUnavailable("away"), StoreUnavailable("away")])

    def status(store: object, run: int) -> RunStatus:
        if (trouble := next(answers, None)) is not None:
            raise trouble
        return status_of(desk.house.store, run)

    monkeypatch.setattr("ramify.inspect.progress.status_of", status)
    display = Counted()
    with Progress(desk.house.store, run, display, every=0.01):
        assert display.shown.acquire(timeout=30)


class Broken(Counted):
    """A display that cannot show anything."""

    def show(self, status: RunStatus, pace: ObservedPace) -> None:
        super().show(status, pace)
        raise RamifyError("nobody listens")

    def close(self) -> None:
        super().close()
        raise ValueError("closed twice")


@pytest.mark.parametrize("first_after", [0, 60])
def test_what_a_display_raises_is_not_what_the_work_came_to(desk: Desk, first_after: float) -> None:
    run = growing(desk)
    display = Broken()
    with Progress(desk.house.client(), run, display, every=0.01, first_after=first_after) as progress:
        if not first_after:
            # It does not follow for nobody.
            assert progress.join() is not None
    assert (len(display.looks), display.closed) == (1, 1)


def test_a_broken_store_is_said_once_and_not_by_the_thread(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def status(store: object, run: int) -> RunStatus:
        raise StoreBroken("it contradicts itself")

    monkeypatch.setattr("ramify.inspect.progress.status_of", status)
    run = growing(desk)
    assert "it contradicts itself" in desk.err("status", "walk", "--watch", code=3)
    display = Counted()
    with pytest.raises(KeyError), Progress(desk.house.store, run, display, every=0.01):
        raise KeyError("the work's own trouble")
    assert display.closed == 1
