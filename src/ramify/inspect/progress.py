"""Live progress of one run: a few lines that stay in place on a terminal, a line now and then elsewhere.

It only looks: a status of the run every moment, with rates over the last half minute. It can run in a thread that has
nothing else to do (`ramify status --watch`) or beside the work (`ramify run`, `engine.run(..., progress=True)`).
Neither trouble with the store nor a display that breaks ends the work it watches.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import IO, Protocol

from ramify.errors import RamifyError, StoreUnavailable
from ramify.inspect.rate import Moment, ObservedPace
from ramify.inspect.status import RunStatus, status_of, waits_in_words
from ramify.inspect.text import STYLES, Piece, safe_text
from ramify.inspect.unknown import unknown_in_words
from ramify.inspect.words import SECOND, duration, number, plural, rate
from ramify.store.contract import Store

#: Seconds between two looks: on a terminal, and elsewhere.
LIVELY, CALM = 0.5, 5.0


class Display(Protocol):
    """Where progress is shown."""

    def show(self, status: RunStatus, pace: ObservedPace) -> None:
        """Show one look."""

    def close(self) -> None:
        """Leave the last look standing."""


def lines_of(status: RunStatus, pace: ObservedPace) -> list[list[Piece]]:
    """One look for people: the run, its counts, its speed, and what it waits for."""
    total = status.total
    counts: list[Piece] = [("good", f"{number(total.done)} done"), f" · {number(total.pending)} pending"]
    for count, word in ((total.failures, "failed"), (total.cancelled, "cancelled"), (total.skipped, "skipped")):
        if count:
            counts += [" · ", ("bad" if word == "failed" else "look", f"{number(count)} {word}")]
    if total.retries:
        counts.append(f" · {plural(total.retries, 'retry', 'retries')}")
    if total.deferrals:
        counts.append(f" · {plural(total.deferrals, 'deferral')}")
    if total.replaced:
        counts.append(f" · {number(total.replaced)} replaced")
    lines = [headline(status), ["  ", *counts]]
    if speed := _speed(status, pace):
        lines.append(["  ", speed])
    if waits := waits_of(status):
        lines.append(["  ", waits])
    lines += [["  ", ("bad", unknown_in_words(kind, count))] for kind, count in status.unknown.items()]
    lines += [["  ", ("bad", each.text)] for each in status.held_up]
    return lines


def headline(status: RunStatus) -> list[Piece]:
    """The run, its state and phase, its round and its age."""
    run = status.run
    style = {"done": "good", "failed": "bad", "paused": "look", "cancelled": "look", "halted": "look"}.get(
        run.state.value
    )
    state: list[Piece] = [(style, run.state.value) if style else run.state.value]
    if not run.state.is_end:
        state.append(f", {status.phase.value}")
    if status.has_rounds:
        state.append(f" · round {run.round}")
    return [("name", status.title), " · ", *state, f" · {duration(status.seconds)}"]


def waits_of(status: RunStatus) -> str | None:
    """Return what the run waits for, in one line."""
    due = status.live.next_due
    soon = f"in {duration(max(0, due - status.at) / SECOND)}" if due is not None else None
    waits = waits_in_words(status, soon)
    if waits is None:
        return None
    if status.run.state.value == "open" and status.gated_by is None and status.live.round.total:
        return f"round {status.run.round} waits for {waits}" if status.has_rounds else f"left: {waits}"
    return waits


def _speed(status: RunStatus, pace: ObservedPace) -> str | None:
    if status.run.state.is_end:
        if status.seconds <= 0 or not status.total.ended:
            return None
        return f"{rate(status.total.ended / status.seconds)} on the whole"
    if pace.ended is None:
        return None
    eta = pace.eta(status.total.pending)
    return f"{rate(pace.added)} added, {rate(pace.ended)} ended" + (
        f" · ETA {duration(eta)}" if eta is not None else ""
    )


class Lines:
    """A line for each look, for files, pipes and logs."""

    def __init__(self, say: Callable[..., None]) -> None:
        self._say = say

    def show(self, status: RunStatus, pace: ObservedPace) -> None:
        """One look on one line."""
        first, *rest = lines_of(status, pace)
        pieces = list(first)
        for line in rest:
            pieces += [" · ", *line[1:]]
        self._say(*pieces)

    def close(self) -> None:
        """Nothing is held back."""


class Panel:
    """A few lines of a terminal, written anew in place; `file` is a terminal that is not standard output."""

    def __init__(self, file: IO[str] | None = None) -> None:
        # Here, because only the live display needs it and it takes a while to load.
        from rich.console import Console
        from rich.live import Live

        terminal = None if file is None else True
        console = Console(file=file, force_terminal=terminal, highlight=False, markup=False, emoji=False)
        # What tasks print is shown above the lines, but not if it goes elsewhere: then it must get there.
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=_is_terminal(sys.stdout))
        self._live.start()

    def show(self, status: RunStatus, pace: ObservedPace) -> None:
        """Draw one look over the one before."""
        from rich.text import Text

        drawn = Text(no_wrap=True, overflow="ellipsis")
        for number_of_line, line in enumerate(lines_of(status, pace)):
            if number_of_line:
                drawn.append("\n")
            for piece in line:
                style, text = piece if isinstance(piece, tuple) else ("", piece)
                drawn.append(safe_text(text), _rich_style(style))
        self._live.update(drawn, refresh=True)

    def close(self) -> None:
        """Leave the last look standing, and the cursor below it."""
        self._live.stop()


class Progress:
    """Looks at a run until it ends or is told to stop, and shows each look."""

    def __init__(
        self,
        store: Store,
        run: int,
        display: Display,
        every: float,
        first_after: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._run, self._display, self._clock = store, run, display, clock
        self._every, self._first_after = every, first_after
        self._pace = ObservedPace()
        self._stop = threading.Event()
        self._last: RunStatus | None = None
        self._is_seen = True
        self._thread: threading.Thread | None = None

    def look(self) -> RunStatus:
        """Look once, and show it."""
        status = self._read()
        self._show(status)
        return status

    def follow(self) -> None:
        """Look until the run has ended, or `stop`; a store that does not answer is asked again.

        It looks more often than it shows, so that the end is noticed at once.
        """
        self._stop.wait(self._first_after)
        next_show = self._clock()
        while not self._stop.is_set():
            try:
                status = self._read()
                if status.run.state.is_end or self._clock() >= next_show:
                    self._show(status)
                    next_show = self._clock() + self._every
                if status.run.state.is_end or not self._is_seen:
                    return
            except StoreUnavailable:
                pass
            except RamifyError:
                # Whoever does the work meets it too, and says so.
                return
            self._stop.wait(min(self._every, LIVELY))

    def _read(self) -> RunStatus:
        status = status_of(self._store, self._run)
        self._pace.note(Moment(self._clock(), status.total.added, status.total.ended))
        return status

    def _show(self, status: RunStatus) -> None:
        self._last = status
        if self._is_seen:
            try:
                self._display.show(status, self._pace)
            except Exception:  # noqa: BLE001 - what a display raises, such as a closed pipe, is not what the work came to
                self._is_seen = False

    def stop(self) -> None:
        """End `follow` soon."""
        self._stop.set()

    def join(self) -> RunStatus | None:
        """Wait until the run has ended; the last look."""
        if self._thread is not None:
            self._thread.join()
        return self._last

    def __enter__(self) -> Progress:
        """Follow in a thread beside the work."""
        self._thread = threading.Thread(target=self.follow, name="ramify-progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Show the last look and let go of the terminal."""
        self.stop()
        last = self.join()
        try:
            if last is None or not last.run.state.is_end:
                self.look()
        except RamifyError:
            # What went wrong with the work itself matters more.
            if error is None:
                raise
        finally:
            with suppress(Exception):
                # A display that is gone needs no closing.
                self._display.close()


def beside(store: Store, run: int, say: Callable[[str], None], *, in_place: bool) -> Progress:
    """Progress beside work that has just begun: on standard error if that is a terminal, else said now and then.

    `in_place=False` leaves a terminal to others.
    """
    if in_place and _is_terminal(sys.stderr):
        return Progress(store, run, Panel(sys.stderr), LIVELY, LIVELY)
    lines = Lines(lambda *pieces: say(safe_text("".join(p if isinstance(p, str) else p[1] for p in pieces))))
    return Progress(store, run, lines, CALM, CALM)


def _is_terminal(stream: IO[str] | None) -> bool:
    return stream is not None and stream.isatty()


def _rich_style(style: str) -> str:
    chosen = STYLES.get(style, {})
    return " ".join([*(name for name in ("bold", "dim") if chosen.get(name)), str(chosen.get("fg", ""))]).strip()
