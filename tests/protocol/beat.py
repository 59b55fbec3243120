"""Heartbeats and self-fencing, in ticks: may a process start a task after others may have taken its claim? (P10)

The process beats over a network with delays; the store's reaper acts when the last beat it has applied is older than
DEAD ticks. The process starts tasks only while the beat it counts from is younger than half of that.
Checked: F it starts nothing once it may have been reaped, L it may work again when the network does.

Ages are kept instead of clock times, so histories of any length are covered. Limits: both clocks run at the same rate,
one beat is in flight at a time, a beat that was given up never arrives (a late one would only help).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from tests.protocol.checker import Case, Label

EVERY, DEAD, SLOWEST = 2, 6, 5
FENCE = DEAD // 2
Rule = Literal["sent", "answered", "none"]


class Flight(NamedTuple):
    age: int  #: ticks since it was sent
    to_store: int
    to_answer: int  #: ticks from the store back


class StartFence(NamedTuple):
    stored: int = 0  #: age of the last beat the store has applied
    counted: int = 0  #: age of the moment the process counts from
    since_sent: int = 0
    flight: Flight | None = None
    frozen: bool = False


@dataclass(frozen=True)
class Beats:
    counts_from: Rule

    def start(self) -> StartFence:
        return StartFence()

    def moves(self, now: StartFence) -> Iterator[tuple[Label, bool, StartFence]]:
        if now.frozen:
            yield Label("thaws", 0), True, now._replace(frozen=False)
        else:
            yield Label("is frozen", 0), True, now._replace(frozen=True)
        if now.flight or now.frozen or now.since_sent < EVERY:
            yield Label("a tick passes"), False, self.tick(now)
            return
        sent = now._replace(since_sent=0)
        yield Label("beats, but the network is gone", 0), True, self.tick(sent)
        for there in range(SLOWEST + 1):
            for back in range(SLOWEST + 1):
                label = Label(f"beats: {there} ticks to the store, {back} back", 0)
                yield label, False, self.tick(self.arrive(sent._replace(flight=Flight(0, there, back))))

    def tick(self, now: StartFence) -> StartFence:
        later = StartFence(now.stored + 1, now.counted + 1, min(now.since_sent + 1, EVERY), now.flight, now.frozen)
        if flight := now.flight:
            on_way_back = flight.to_store < 0
            to_answer = max(flight.to_answer - 1, 0) if on_way_back else flight.to_answer
            later = later._replace(flight=Flight(flight.age + 1, max(flight.to_store - 1, -1), to_answer))
        return self.arrive(later)

    def arrive(self, now: StartFence) -> StartFence:
        """The store applies a beat that reached it; an awake process reads an answer that reached it."""
        flight = now.flight
        if flight and flight.to_store == 0:
            flight = flight._replace(to_store=-1)
            now = now._replace(stored=0, flight=flight)
        if flight and flight.to_store < 0 and flight.to_answer == 0 and not now.frozen:
            now = now._replace(counted=flight.age if self.counts_from == "sent" else 0, flight=None)
        return now

    def may_start(self, now: StartFence) -> bool:
        return not now.frozen and (self.counts_from == "none" or now.counted < FENCE)

    def canonical(self, now: StartFence) -> StartFence:
        """Ages beyond every limit are alike."""
        flight = now.flight and now.flight._replace(age=min(now.flight.age, DEAD + 1))
        return now._replace(stored=min(now.stored, DEAD + 1), counted=min(now.counted, DEAD + 1), flight=flight)

    def wrong(self, now: StartFence) -> str:
        too_late = now.stored > DEAD and self.may_start(now)
        return "F the claim may be taken by others and the process still starts tasks" if too_late else ""

    def ended(self, now: StartFence) -> bool:
        return now.frozen or self.may_start(now)


RULES: tuple[tuple[Rule, str, str], ...] = (
    ("sent", "", "Count from when the answered beat was sent, and stop at half of dead_after."),
    ("answered", "F", "Count from when the answer came: it may have been on its way for longer than the margin."),
    ("none", "F", "Start tasks until a beat says that the process was reaped: it learns that after the fact."),
)
CASES = tuple(Case(f"beat/{rule}", partial(Beats, rule), why, breaks) for rule, breaks, why in RULES)
