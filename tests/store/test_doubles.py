"""The suite is able to fail: mutants and broken doubles are caught by each of the cases that they name.

A mutant plants a bug in a store; `make mutants` tries them, which takes long. A double is a store that is broken from
outside, for what no planted line shows; those are tried here. A promise of which neither is caught is a promise that
nobody checks, so the cases that they name are counted, and may only get more. The cases of doubles pass on the
undamaged store: it is the damage that they see.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from ramify.errors import RamifyError
from ramify.store.memory import MemoryStore, MemoryTables
from ramify.testing import conformance
from ramify.testing.conformance import Case, House
from tests.store.doubles import DOUBLES
from tools.mutants import load

ROOT = Path(__file__).parents[2]
CASES = {f"{case.verb}: {case.sentence}": case for case in conformance.cases()}
#: The cases by the names that pytest gives them, without the store.
IDS = {f"{case.verb}-{case.name}": case for case in CASES.values()}
#: How many cases a mutant or a double is caught by, at least. It only goes up.
PROVEN = 440
#: How a case fails: by a check of its own, or by a store that refuses what it should accept. Anything else would mean
#: that the double itself does not work.
NOTICED = (AssertionError, RamifyError)
SELECTED = re.compile(r"tests/store/test_conformance\.py::test_the_store_keeps_the_promise\[(.+)-(memory|sqlite)\]")


def prove(case: Case, store: type[MemoryStore]) -> None:
    place = MemoryTables()
    conformance.prove(case, House(open=lambda clock: store(place, clock), kill=lambda client: None))


@cache
def named_by_mutants() -> frozenset[str]:
    """The cases that must catch a mutant, as pytest names them."""
    tests = [test for mutant in load(ROOT) for test in mutant.tests]
    return frozenset(found[1] for test in tests if (found := SELECTED.fullmatch(test)))


def proven() -> set[Case]:
    """The cases that are known to fail when what they promise is broken."""
    doubled = {CASES[name] for names in DOUBLES.values() for name in names}
    return doubled | {IDS[name] for name in named_by_mutants()}


@pytest.mark.parametrize("double", DOUBLES, ids=lambda double: double.__name__)
def test_a_broken_double_is_caught(double: type[MemoryStore]) -> None:
    for name in DOUBLES[double]:
        with pytest.raises(NOTICED):
            prove(CASES[name], double)


@pytest.mark.parametrize("name", sorted({name for names in DOUBLES.values() for name in names}))
def test_the_undamaged_store_passes_where_a_double_is_caught(name: str) -> None:
    prove(CASES[name], MemoryStore)


def test_mutants_name_cases_that_exist() -> None:
    assert named_by_mutants() <= IDS.keys()


def test_every_verb_has_a_case_that_is_known_to_fail() -> None:
    assert {case.verb for case in proven()} == {case.verb for case in CASES.values()}


def test_every_file_of_the_suite_has_a_case_that_is_known_to_fail() -> None:
    files = {case.check.__module__.rpartition(".")[2] for case in proven()}
    assert files == set(conformance.FILES)


def test_no_fewer_cases_are_known_to_fail_than_before() -> None:
    assert len(proven()) >= PROVEN
