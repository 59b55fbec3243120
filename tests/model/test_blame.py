"""What a death says about the tasks of the process that died: who is marked, who runs apart, who is to blame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramify.model.blame import after_death
from ramify.model.death import NO_DEATHS, NOBODYS_FAULT, Death, Deaths
from ramify.model.segment import MASK_WIDTH, mask_of, tasks_in

some_tasks = st.lists(st.integers(1000, 1300), min_size=1, unique=True).map(sorted)
some_running = st.dictionaries(st.integers(1000, 1300), st.booleans(), min_size=1)
some_deaths = st.builds(Deaths, st.integers(0, 3), st.integers(0, 3), st.integers(0, 15), st.booleans(), st.booleans())


def after(tasks: list[int], before: Deaths, death: Death) -> dict[int, Deaths]:
    """What each task has on record afterwards."""
    offered = after_death((1000, 1300, mask_of(tasks, 1000)), before, death)
    return {task: deaths for row, deaths in offered for task in tasks_in(*row)}


@given(some_deaths)
def test_deaths_are_one_number(deaths: Deaths) -> None:
    assert Deaths.unpack(deaths.packed) == deaths
    assert bool(deaths.packed & 1) is deaths.apart
    assert NO_DEATHS.packed == 0


def test_more_deaths_than_fit_are_the_most_that_do() -> None:
    many = Deaths(2**70, 2**70, 2**70, apart=True, alone=True)
    assert many.packed == 2**62 - 1
    assert Deaths.unpack(many.packed).ran == 2**20 - 1


@given(some_running, some_deaths, st.booleans())
def test_every_task_is_offered_again_once(running: dict[int, bool], before: Deaths, evidence: bool) -> None:
    tasks, ran = sorted(running), {task for task, runs in running.items() if runs}
    death = Death(dict.fromkeys(ran, 5), evidence)
    offered = after_death((1000, 1300, mask_of(tasks, 1000)), before, death)
    assert sorted(task for row, _ in offered for task in tasks_in(*row)) == tasks
    assert len(offered) <= 32


@given(some_tasks, some_deaths)
def test_a_death_that_is_nobodys_fault_changes_nothing(tasks: list[int], before: Deaths) -> None:
    row = (1000, 1300, mask_of(tasks, 1000))
    assert after_death(row, before, NOBODYS_FAULT) == [(row, before)]


@given(some_running, some_deaths)
def test_without_evidence_nobody_is_marked_who_did_not_run(running: dict[int, bool], before: Deaths) -> None:
    tasks, ran = sorted(running), {task for task, runs in running.items() if runs}
    found = after(tasks, before, Death(dict.fromkeys(ran, 5)))
    assert {deaths for task, deaths in found.items() if task not in ran} <= {before}
    assert {deaths.silent for task, deaths in found.items() if task in ran} <= {before.silent + 1}


@pytest.mark.parametrize("size", [1, 15, 16, 17, 4096, MASK_WIDTH])
def test_parts_that_run_apart_are_few_and_about_equal(size: int) -> None:
    death = Death(dict.fromkeys(range(1, size + 1), 5), evidence=True)
    offered = after_death((1, size, None), Deaths(ran=1), death)
    sizes = [last - first + 1 for (first, last, _), _ in offered]
    assert sum(sizes) == size
    assert max(sizes) == -(-size // 16)
    assert all(deaths.apart for _, deaths in offered)


def test_the_first_death_with_evidence_leaves_everybody_among_the_others() -> None:
    found = after([1000, 1001], NO_DEATHS, Death({1000: 5}, evidence=True))
    assert found == {1000: Deaths(ran=1), 1001: Deaths(held=1)}


@pytest.mark.parametrize(
    ("before", "ran", "apart"),
    [
        (Deaths(ran=1), True, True),
        (Deaths(held=1), True, False),
        (Deaths(held=2), True, True),
        (Deaths(held=1), False, False),
        (Deaths(held=2), False, True),
        (Deaths(ran=1, held=1), False, True),
    ],
)
def test_it_runs_apart_from_two_deaths_while_it_ran_or_three_in_all(before: Deaths, ran: bool, apart: bool) -> None:
    (deaths,) = after([1000], before, Death({1000: 5} if ran else {}, evidence=True)).values()
    assert deaths.apart is apart


@pytest.mark.parametrize(("most", "from_silent"), [(5, 13), (2, 5), (1, 3), (None, None)])
def test_without_evidence_it_runs_apart_from_half_of_five_times_as_many(
    most: int | None, from_silent: int | None
) -> None:
    for silent in range(30):
        (deaths,) = after([1000], Deaths(silent=silent), Death({1000: most})).values()
        assert deaths.apart is (from_silent is not None and silent + 1 >= from_silent)


def test_alone_is_who_ran_apart_as_the_only_task_of_its_row() -> None:
    death = Death({1000: 5}, evidence=True)
    assert not after([1000], Deaths(ran=1), death)[1000].alone
    assert not after([1000, 1001], Deaths(ran=2, apart=True), death)[1000].alone
    assert after([1000], Deaths(ran=2, apart=True), death)[1000].alone


def test_a_kill_from_outside_while_alone_proves_nothing_about_deaths_that_were_shared() -> None:
    shared = Deaths(held=9, apart=True)
    assert not after([1000], shared, Death({1000: 5}))[1000].alone
    assert after([1000], Deaths(silent=24, apart=True), Death({1000: 5}))[1000].alone


@pytest.mark.parametrize(
    ("deaths", "guilty"),
    [
        (Deaths(ran=5, apart=True, alone=True), True),
        (Deaths(ran=3, held=2, apart=True, alone=True), True),
        (Deaths(ran=4, apart=True, alone=True), False),
        (Deaths(ran=9, apart=True), False),
        (Deaths(silent=25, apart=True, alone=True), True),
        (Deaths(silent=24, apart=True, alone=True), False),
        (Deaths(ran=4, silent=24, apart=True, alone=True), False),
    ],
)
def test_blame_needs_enough_deaths_the_last_of_them_alone(deaths: Deaths, guilty: bool) -> None:
    assert deaths.blames(5) is guilty
    assert not deaths.blames(None)


def deaths_until_found(ran: bool, count: int, running: int) -> int:
    """How many deaths one killer takes, with the worst neighbours: all of them are there again each time."""
    tasks, deaths, number = list(range(1000, 1000 + count)), NO_DEATHS, 0
    while not (len(tasks) == 1 and deaths.blames(5)):
        number += 1
        first = tasks[:running] if ran else []
        offered = after_death((tasks[0], tasks[-1], None), deaths, Death(dict.fromkeys(first, 5), evidence=True))
        row, deaths = next((row, deaths) for row, deaths in offered if tasks[0] in tasks_in(*row))
        tasks = list(tasks_in(*row))
    return number


@pytest.mark.parametrize(("running", "most"), [(1, 5), (8, 5), (64, 5), (4096, 5), (8192, 6)])
def test_a_task_that_dies_while_it_runs_is_found_in_few_deaths(running: int, most: int) -> None:
    assert deaths_until_found(ran=True, count=MASK_WIDTH, running=running) <= most


@pytest.mark.parametrize(("held", "most"), [(1, 5), (256, 5), (4096, 6), (8192, 7)])
def test_a_task_that_kills_just_after_it_returned_is_found_in_few_deaths(held: int, most: int) -> None:
    assert deaths_until_found(ran=False, count=held, running=0) <= most
