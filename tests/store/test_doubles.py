"""The suite is able to fail: every broken double is caught by each of the cases that it names, and by no accident.

A double that is not caught means a promise that nobody checks. The same cases pass on the undamaged store, so it is
the damage that they see.
"""

import pytest

from ramify.errors import RamifyError
from ramify.store.memory import MemoryStore, MemoryTables
from ramify.testing import conformance
from ramify.testing.conformance import Case, House
from tests.store import (
    doubles_bounds,
    doubles_context,
    doubles_editions,
    doubles_forget,
    doubles_idle,
    doubles_joins,
    doubles_live,
    doubles_people,
    doubles_reads,
    doubles_runs,
    doubles_totals,
    doubles_working,
)
from tests.store.doubles import DOUBLES

CASES = {f"{case.verb}: {case.sentence}": case for case in conformance.cases()}
FILES = (
    doubles_bounds,
    doubles_context,
    doubles_editions,
    doubles_forget,
    doubles_idle,
    doubles_joins,
    doubles_live,
    doubles_people,
    doubles_reads,
    doubles_runs,
    doubles_totals,
    doubles_working,
)
#: How a case fails: by a check of its own, or by a store that refuses what it should accept. Anything else would mean
#: that the double itself does not work.
NOTICED = (AssertionError, RamifyError)


def prove(case: Case, store: type[MemoryStore]) -> None:
    place = MemoryTables()
    conformance.prove(case, House(open=lambda clock: store(place, clock), kill=lambda client: None))


def test_the_doubles_are_all_here() -> None:
    assert len(DOUBLES) >= 40
    assert {file.__name__ for file in FILES} < {double.__module__ for double in DOUBLES}
    assert all(double.__doc__ for double in DOUBLES)


@pytest.mark.parametrize("double", DOUBLES, ids=lambda double: double.__name__)
def test_a_broken_double_is_caught(double: type[MemoryStore]) -> None:
    for name in DOUBLES[double]:
        with pytest.raises(NOTICED):
            prove(CASES[name], double)


@pytest.mark.parametrize("name", sorted({name for names in DOUBLES.values() for name in names}))
def test_the_undamaged_store_passes_where_a_double_is_caught(name: str) -> None:
    prove(CASES[name], MemoryStore)


def test_every_verb_has_a_double_that_is_caught() -> None:
    assert {CASES[name].verb for names in DOUBLES.values() for name in names} == {case.verb for case in CASES.values()}
