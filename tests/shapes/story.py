"""Stories: what people decide about a drawn run at random moments, and how it comes to its end all the same.

A story begins a run (`plot.py`), lets people decide about it and about the runs it starts, between two turns of work
and in the middle of handlers, and then brings it to its end by a fixed rule: what fails is mended, gates are answered,
and whatever is not as it must be is tried again. Then nothing tells it from a run that nobody disturbed.

A decision that is refused says why with an error of ours, and changes nothing. What people can look at can be looked at
at any moment.

    python -m tests.shapes.story pipeline sqlite 17 1000    a thousand stories from seed 17 on
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from ramify import Engine, RamifyError, Route, Run, RunState
from ramify.errors import UnknownTask
from ramify.inspect.gates import every_gate
from ramify.model.event import Status
from ramify.model.gate import GATE
from ramify.model.key import key_text
from ramify.testing import oracle, using
from tests.shapes import drawn, drawn_pipeline
from tests.shapes.drawn_pipeline import ANSWER
from tests.shapes.plot import Plot, dag_plot, pipeline_plot
from tests.shapes.story_judge import BY, NAME, Cast, is_decided

Plotting = Callable[[Engine, random.Random], Plot]
PLOTS: dict[str, tuple[ModuleType, Plotting]] = {
    "dag": (drawn, dag_plot),
    "pipeline": (drawn_pipeline, pipeline_plot),
}
#: How often a run may be worked on until it has come to its end.
TURNS = 60
#: How long a turn may take among workers of their own, in seconds; reaching it is a failure.
LIMIT = 60.0


class People:
    """Who decides, by chance. `alone` when nobody works meanwhile, so that it can be seen what a refusal changed."""

    def __init__(self, cast: Cast, chance: random.Random, *, alone: bool = True) -> None:
        self.cast = cast
        self.chance = chance
        self.alone = alone
        self.said: list[str] = []
        self.refused = self.decided = 0

    def decide(self) -> None:
        """Let somebody decide something."""
        what, decide = self._decision()
        before = self.cast.everything() if self.alone else None
        self.said.append(what)
        refusal: RamifyError | None = None
        try:
            self.said[-1] += f" -> {decide()}"
        except RamifyError as error:
            self.said[-1] += f" -> {type(error).__name__}: {error}"
            refusal = error
        self.refused += refusal is not None
        self.decided += refusal is None
        assert refusal is None or str(refusal).strip(), f"{what} was refused without a word"
        if refusal is not None and before is not None:
            after = self.cast.everything()
            assert after == before, f"{what} was refused, and changed something: {before}\n{after}"
        if self.alone and self.chance.random() < 0.3:
            found = oracle.check(self.cast.store)
            assert not found, found
            self.cast.look()

    def _decision(self) -> tuple[str, Callable[[], object]]:
        chance = self.chance
        runs = self.cast.runs()
        run = chance.choice(runs) if chance.random() < 0.25 else runs[0]
        task: Any = self._task(run)
        who = f"run {run.id} ({run.name}, {run.state.value})"
        choices: list[tuple[int, str, Callable[[], object]]] = [
            (12, f"retry({task!r})", lambda: run.retry(task)),
            (2, "retry several", lambda: run.retry(task, self._task(run))),
            (2, "retry()", run.retry),
            (3, "retry(cancelled=True)", lambda: run.retry(cancelled=True)),
            (4, f"resolve({task!r}, result=)", lambda: run.resolve(task, result=self._result(run, task), by=BY)),
            (4, f"resolve({task!r}, skip=True)", lambda: run.resolve(task, skip=True, by=BY)),
            (3, f"cancel(task={task!r})", lambda: run.cancel(task=task)),
            (3, f"cancel(task={task!r}, below=True)", lambda: run.cancel(task=task, below=True)),
            (1, "cancel()", run.cancel),
            (1, "pause()", run.pause),
            (2, "resume()", run.resume),
            (4, "answer", lambda: self._answer(run, task)),
            # The run itself must stay, so it is forgotten only when that is refused.
            (1 if run is not runs[0] or (self.alone and not run.ended) else 0, "forget()", run.forget),
        ]
        _, what, decide = chance.choices(choices, [weight for weight, _, _ in choices])[0]
        return f"{who}: {what}", decide

    def _answer(self, run: Run[Any], task: Any) -> object:
        """Answer a gate that is open, now and then another one, or what is none."""
        gates = [each.gate for each in every_gate(self.cast.store.reads, run.id)]
        if not gates or self.chance.random() < 0.3:
            gates = [key_text(row.key) or "" for row in self.cast.rows(run.id) if row.kind == GATE] or [task]
        gate = self.chance.choice(gates)
        run.answer(gate, ANSWER)
        return gate

    def _task(self, run: Run[Any]) -> int | str:
        """A task by its key or id, perhaps an item of a map; now and then one that is not there."""
        if run.state is RunState.FORGOTTEN or self.chance.random() < 0.03:
            nobody: list[int | str] = ["nothing", "n1[99]", run.id, run.id + 10**9, ""]
            return self.chance.choice(nobody)
        rows = self.cast.rows(run.id)
        makers = {row.parent for row in rows}
        # What others follow, or are made by, is more often decided about than single items.
        weights = [4 if row.parent is None or row.id in makers else 1 for row in rows]
        row = self.chance.choices(rows, weights)[0]
        key = key_text(row.key)
        if key is None or self.chance.random() < 0.25:
            return row.id
        if key.endswith("[]") and self.chance.random() < 0.7:
            return f"{key[:-1]}{self.chance.randrange(5)}]"
        return key

    def _result(self, run: Run[Any], task: int | str) -> object:
        row = self.cast.store.reads.task(task if isinstance(task, int) else run[task].task)
        number = self.chance.randrange(1_000)
        match None if row is None else row.kind:
            case "list" | "parts" | "several":
                return [number + at for at in range(self.chance.randrange(3))]
            case "chosen":
                return Route(str(number % 4), number)
            case "child":
                return "by hand"
            case _:
                return self.chance.choice([number, number, number, None, "a text", [number]])


class World:
    """What fails and what is heard in handlers while a story is told."""

    def __init__(self) -> None:
        self.is_broken = True
        self.hear: Callable[[int], object] = lambda begun: None
        self._begun = 0
        self._changed = threading.Condition()

    def begin(self, name: str) -> None:
        """A handler begins."""
        with self._changed:
            self._begun += 1
            begun = self._begun
            self._changed.notify_all()
        self.hear(begun)

    def wait(self, many: int) -> None:
        """Wait until so many more have begun; not for long, because it may be that none does."""
        with self._changed:
            due = self._begun + many
            self._changed.wait_for(lambda: self._begun >= due, timeout=0.05)


@contextmanager
def world(drawing: ModuleType) -> Iterator[World]:
    """A world for the handlers of drawings, until the block ends."""
    made = World()
    drawing.broken[0], drawing.heard[0] = lambda: made.is_broken, made.begin
    try:
        yield made
    finally:
        drawing.broken[0], drawing.heard[0] = drawing.unmended, drawing.begun


class Story:
    """One story, all of which is told by its seed: which plot, what people decide, and when."""

    def __init__(self, shape: str, store: str | Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.shape, self.store = shape, store
        self.people: People | None = None
        self._moments: set[int] = set()
        self._trouble: list[BaseException] = []

    def tell(self) -> People:
        """Tell it to its end."""
        chance = self.chance
        drawing, plotted = PLOTS[self.shape]
        engine = Engine("memory:", include=[drawing.tasks])
        plot = plotted(engine, chance)
        with using(engine, self.store) as bench, world(drawing) as around:
            cast = Cast(engine, plot, engine.start(plot.root, name=NAME))
            self.people = people = People(cast, chance)
            around.hear = self._decide_within
            self._moments = {chance.randrange(1, 25) for _ in range(chance.choice((0, 3, 6)))}
            for _ in range(chance.randrange(1, 7)):
                for _ in range(chance.randrange(5)):
                    people.decide()
                bench.finish() if chance.random() < 0.7 else bench.drain(raising=False)
                if self._trouble:
                    raise self._trouble[0]
            self._moments.clear()
            around.is_broken = False
            people.said.append("-- to its end")
            Ending(cast, chance, bench.finish, people.said).bring()
            found = list(cast.complaints())
            assert not found, "\n".join(found)
        return people

    def _decide_within(self, begun: int) -> None:
        """Decide in the middle of a handler; what goes wrong there is no failure of its task."""
        if begun not in self._moments or self._trouble or self.people is None:
            return
        self.people.said.append("-- in a handler:")
        try:
            self.people.decide()
        except BaseException as error:  # noqa: BLE001  it is raised where the story is told
            self._trouble.append(error)


class Ending:
    """The rule by which a run comes to its end, whatever was decided about it."""

    def __init__(self, cast: Cast, chance: random.Random, work: Callable[[], object], said: list[str]) -> None:
        self._cast = cast
        self._chance = chance
        self._work = work
        self._said = said

    def bring(self) -> None:
        """Answer, resume, and try again, until nothing is wrong."""
        for _ in range(TURNS):
            self._work()
            if self._let_go_on():
                continue
            run = self._cast.run
            if not self._cast.wrong() and run.ended and run.state is not RunState.CANCELLED:
                return
            self._try_again()
        raise AssertionError(f"it does not come to its end: {self._cast.run}, {self._cast.wrong()}")

    def _let_go_on(self) -> bool:
        """Resume what is paused and answer what asks; whether there was any such thing."""
        found = False
        for run in self._cast.runs():
            if run.state is RunState.PAUSED:
                run.resume()
                found = True
            if not run.ended:
                for gate in list(every_gate(self._cast.store.reads, run.id)):
                    run.answer(gate.gate, ANSWER)
                    found = True
        return found

    def _try_again(self) -> None:
        run, wrong = self._cast.run, self._cast.wrong()
        if run.state is RunState.CANCELLED and not wrong:
            # All of it had ended before anything was cancelled: one that ends again ends the run as well.
            self._retry(run, max(self._cast.standing(run.id)), "of a run of which nothing was cancelled")
            return
        # One whose tasks had all ended before the cancel has nothing that it could try again by that word.
        was_cut = any(ended is Status.CANCELLED for _, ended in self._cast.standing(run.id).values())
        if run.state is RunState.CANCELLED and was_cut and self._chance.random() < 0.7:
            self._said.append("retry(cancelled=True)")
            run.retry(cancelled=True)
            return
        self._try_launched_again()
        ended = [task for task, why in wrong.items() if why != "has not ended"]
        if self._chance.random() < 0.5:
            self._said.append(f"retry all of { ({task: wrong[task] for task in ended}) }")
            assert ended, f"nothing can be tried again: {wrong}"
            run.retry(*ended)
            return
        self._chance.shuffle(ended)
        for task in ended:
            self._retry(run, task, wrong[task])

    def _try_launched_again(self) -> None:
        """Try again what was decided in runs that had nothing to do, or failed, because of it."""
        cast = self._cast
        for suffix in cast.plot.handed_on:
            run = cast.engine.find(f"{NAME}/{suffix}")
            if run is None or not run.ended or (run.state is RunState.DONE and not self._is_skipped(suffix)):
                continue
            for task, (row, ended) in cast.standing(run.id).items():
                is_answered = row.kind == GATE and ended is Status.DONE
                if ended is Status.CANCELLED or (is_decided(cast.store.reads.events(task, task)) and not is_answered):
                    self._retry(run, task, f"of {run.name}")

    def _is_skipped(self, key: str) -> bool:
        """Whether a step was skipped that is there."""
        with suppress(UnknownTask):
            return self._cast.run[key].state == "skipped"
        return False

    def _retry(self, run: Run[Any], task: int, why: str) -> None:
        """Try one task again, unless what was tried again before has taken it along, or has replaced it."""
        self._said.append(f"retry {task} {why}")
        try:
            run.retry(task)
        except RamifyError as error:
            self._said[-1] += f" -> {error}"


class LiveStory:
    """One story among workers of its own, which people do not wait for: so its seed does not tell all of it."""

    def __init__(self, engine: Engine, plot: Plot, chance: random.Random) -> None:
        self.cast = Cast(engine, plot, engine.start(plot.root, name=NAME))
        self.people = People(self.cast, chance, alone=False)
        self._chance = chance

    def disturb(self, times: int, meanwhile: Callable[[], object]) -> None:
        """Let people decide so often, each time after something else happened meanwhile."""
        for _ in range(times):
            meanwhile()
            self.people.decide()

    def end(self) -> None:
        """Bring it to its end."""
        self.people.said.append("-- to its end")
        try:
            Ending(self.cast, self._chance, self._turn, self.people.said).bring()
            found = list(self.cast.complaints())
            assert not found, "\n".join(found)
        except BaseException as error:
            error.add_note("\n".join(self.people.said))
            raise

    def _turn(self) -> None:
        """Wait until nothing goes on by itself."""
        limit, pause = time.monotonic() + LIMIT, threading.Event()
        while not self._is_over():
            assert time.monotonic() < limit, f"waited in vain for {self.cast.run}: {self.cast.wrong()}"
            pause.wait(0.005)

    def _is_over(self) -> bool:
        runs = self.cast.runs()
        reads = self.cast.store.reads
        asks = any(each.state is RunState.PAUSED or any(every_gate(reads, each.id)) for each in runs if not each.ended)
        return asks or all(each.ended for each in runs)


def tell(shape: str, store: str, seed: int, folder: Path) -> People:
    """Tell one story; AssertionError with all that was said in it when it goes wrong."""
    file = folder / f"story-{seed}.db"
    story = Story(shape, "memory:" if store == "memory" else file, seed)
    try:
        return story.tell()
    except BaseException as error:
        said = [] if story.people is None else story.people.said
        error.add_note("\n".join([f"replay: python -m tests.shapes.story {shape} {store} {seed}", *said]))
        raise


def tell_among_threads(shape: str, plotted: Plotting, store: str, seed: int, folder: Path) -> None:
    """Tell one while threads work on it, in which people decide whenever a few handlers were begun."""
    chance = random.Random(seed)
    drawing, _ = PLOTS[shape]
    # Nobody cuts the power here, so a sync in each commit would be nothing but a wait for the disk.
    place = "memory:" if store == "memory" else folder / f"story-{seed}.db"
    engine = Engine(place, include=[drawing.tasks], durability="process")
    story = LiveStory(engine, plotted(engine, chance), chance)
    with world(drawing) as around, engine.working(threads=2):
        story.disturb(chance.randrange(4, 16), lambda: around.wait(chance.randrange(3)))
        around.is_broken = False
        story.end()
    engine.close()


def main(shape: str, store: str, first: str, many: str = "1") -> None:
    """Tell stories from a seed on, and say which went wrong and what was said in the last of them."""
    counts: Counter[str] = Counter()
    said: list[str] = []
    for seed in range(int(first), int(first) + int(many)):
        try:
            with tempfile.TemporaryDirectory() as folder:
                people = tell(shape, store, seed, Path(folder))
        except Exception as error:  # noqa: BLE001  the next one is told all the same
            counts["wrong"] += 1
            print(f"{shape} {store} {seed} went wrong: {type(error).__name__}: {error}", flush=True)
            said = error.__notes__
        else:
            counts.update(clean=1, decided=people.decided, refused=people.refused)
            said = people.said
    print(*(said if many == "1" else ()), f"{shape} {store}: {dict(counts)}", sep="\n", flush=True)


if __name__ == "__main__":
    from tests.shapes import story

    story.main(*sys.argv[1:])
