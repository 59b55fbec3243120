"""Every store keeps every promise of the contract, and the suite that says so is complete in itself.

The cases live in `ramify.testing.conformance`; here they meet our own stores. A store that exists but cannot be
imported fails the collection: there is no quiet skipping.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from ramify.store.contract import Store
from ramify.store.memory import MemoryStore, MemoryTables
from ramify.store.postgres import PostgresStore
from ramify.store.sqlite import SqliteStore
from ramify.testing import conformance
from ramify.testing.conformance import Case, House
from tests.postgres import emptied


def memory(folder: Path) -> House:
    place = MemoryTables()
    return House(open=lambda clock: MemoryStore(place, clock), kill=lambda store: None)


def sqlite(folder: Path) -> House:
    # A client that is closed without having left has let go of its lock file, as the kernel does at a death.
    return House(open=lambda clock: SqliteStore(folder / "house.db", clock=clock), kill=lambda store: store.close())


def postgres(folder: Path) -> House:
    url = emptied()
    # A client that is closed has let go of its lock file here as well.
    return House(open=lambda clock: PostgresStore(url, clock=clock, folder=folder), kill=lambda store: store.close())


HOUSES: dict[str, Callable[[Path], House]] = {"memory": memory, "sqlite": sqlite, "postgres": postgres}

CASES = conformance.cases()
#: Cases that a store fails, by its name, and why. Each of them must fail: one that is kept after all leaves the list.
KNOWN: dict[tuple[str, str], str] = {}
#: What the contract promises beside its verbs; `resume` is proven with `pause`.
BESIDES = {"keys", "joins", "behind", "tail", "context"}


@pytest.mark.parametrize("store", HOUSES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.verb}-{case.name}")
def test_the_store_keeps_the_promise(
    case: Case,
    store: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    request: pytest.FixtureRequest,
) -> None:
    if reason := KNOWN.get((store, case.name)):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError))
    record_property("store", store)
    record_property("verb", case.verb)
    conformance.prove(case, HOUSES[store](tmp_path))


def test_what_is_known_to_fail_is_a_case_of_a_store() -> None:
    names = {case.name for case in CASES}
    assert all(store in HOUSES and name in names for store, name in KNOWN)


def test_every_verb_of_the_contract_has_cases() -> None:
    verbs = {name for name in vars(Store) if not name.startswith("_")}
    assert {case.verb for case in CASES} == (verbs - {"resume"}) | BESIDES


def test_every_file_of_the_suite_is_read_and_begins_with_its_promise() -> None:
    folder = Path(conformance.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "house", "registry"}
    assert files == set(conformance.FILES)
    for case in CASES:
        module = case.check.__module__.rpartition(".")[2]
        assert module in files, case
        assert (folder / f"{module}.py").read_text().startswith('"""'), module


def test_the_suite_knows_no_backend() -> None:
    folder = Path(conformance.__file__).parent.parent
    for path in folder.rglob("*.py"):
        text = path.read_text()
        assert "store.memory" not in text, path
        assert "store.sqlite" not in text, path
