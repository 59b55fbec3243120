"""Marks: requests to cancel that this process has heard of. Part of the core: no threads, no clock.

A mark is new once, and then what is held of its run goes back, because the next claim honours it. A claim whose answer
is on its way while a mark is heard of does not know it: to that claim the mark is new again.
"""

from __future__ import annotations

from collections.abc import Iterable

from ramify.model.event import Status
from ramify.model.mark import Mark, Scope

Name = tuple[int, Scope, int | None, Status]


class Marks:
    """`runs` and `tasks` are those that nobody wants any more, with who said so and why, for handlers that ask.

    A task that somebody settled in another way than by a cancel is not told: what its attempt comes to counts, or the
    mark does at its next claim.
    """

    def __init__(self) -> None:
        self._known: set[Name] = set()
        self._asked_with: set[Name] = set()
        self.runs: dict[int, Mark] = {}
        self.tasks: dict[int, Mark] = {}

    def asked(self) -> None:
        """A claim is asked for: the store honours at least what is known here."""
        self._asked_with = set(self._known)

    def claimed(self) -> None:
        """It was answered."""
        self._known &= self._asked_with

    def heard(self, marks: Iterable[Mark]) -> set[int]:
        """A beat tells of all marks on the runs that are held; those runs in which some are new."""
        marks = tuple(marks)
        self._known &= set(map(_name, marks))
        # A task or a run that was reopened since is wanted again.
        _keep(self.runs, {run for run, scope, *_ in self._known if scope is Scope.RUN})
        # One that an advance told of came without its reason.
        self.runs.update((mark.run, mark) for mark in marks if mark.scope is Scope.RUN and mark.run in self.runs)
        _keep(self.tasks, {task for _, _, task, _ in self._known if task is not None})
        return self._new(marks)

    def committed(self, marks: Iterable[Mark]) -> set[int]:
        """A commit tells of them, and a claim that came with it knows them; the runs in which some are new."""
        marks = tuple(marks)
        self._asked_with.update(map(_name, marks))
        return self._new(marks)

    def drained(self, run: int) -> set[int]:
        """A run is on its way to its end; it alone, if that is new."""
        return self._new((Mark(run, Scope.RUN, None, Status.CANCELLED),))

    def _new(self, marks: tuple[Mark, ...]) -> set[int]:
        new = [mark for mark in marks if _name(mark) not in self._known]
        self._known.update(map(_name, new))
        self.runs.update((mark.run, mark) for mark in new if mark.scope is Scope.RUN)
        self.tasks.update(
            (mark.task, mark) for mark in new if mark.task is not None and mark.status is Status.CANCELLED
        )
        return {mark.run for mark in new}


def _keep(unwanted: dict[int, Mark], marked: set[int]) -> None:
    for number in unwanted.keys() - marked:
        del unwanted[number]


def _name(mark: Mark) -> Name:
    return mark.run, mark.scope, mark.task, mark.status
