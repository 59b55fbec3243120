"""The conformance suite: the contract of a store, by example. One file per verb, each beginning with its promise.

A store author runs it like this, with a fresh and empty place for every case:

    @pytest.mark.parametrize("case", conformance.cases(), ids=lambda case: f"{case.verb}-{case.name}")
    def test_my_store_keeps_the_contract(case, tmp_path):
        conformance.prove(case, House(open=lambda clock: MyStore(tmp_path, clock), kill=MyStore.vanish))

Cases speak to a store through its verbs and its reads only, never through a backend. After each one the oracle looks
at everything the store shows. What the suite cannot do is cut a verb in the middle: atomicity under crashes, lost
replies and full disks needs the store's own fault tests.
"""

from __future__ import annotations

from importlib import import_module

from ramify.testing.conformance.house import House, Worker
from ramify.testing.conformance.registry import Case, case, filed
from ramify.testing.oracle import check

__all__ = ["FILES", "Case", "House", "Worker", "case", "cases", "prove"]

#: In reading order.
FILES = (
    "processes",
    "wait",
    "reserve",
    "start",
    "append",
    "singles",
    "claim",
    "left",
    "next_due",
    "order",
    "suspects",
    "commit",
    "additions",
    "retries",
    "context",
    "values",
    "topics",
    "own_topics",
    "columns",
    "stage",
    "release",
    "lanes",
    "beat",
    "drain",
    "reap",
    "bury",
    "advance",
    "movable",
    "bounds",
    "limits",
    "rates",
    "leaving_lines",
    "lines",
    "cancel",
    "cancel_tasks",
    "settle",
    "decisions",
    "pause",
    "reopen",
    "following",
    "editions",
    "replaced",
    "keys",
    "joins",
    "behind",
    "delays",
    "reads",
    "live",
    "standings",
    "kin",
    "tail",
    "note",
    "vacuum",
    "forget",
    "forget_tasks",
    "totals",
    "backup",
)


def cases() -> tuple[Case, ...]:
    """Every case as (verb, name, check), in reading order."""
    for file in FILES:
        import_module(f"{__name__}.{file}")
    return filed()


def prove(case: Case, house: House) -> None:
    """Run one case in a fresh house, then the oracle over what it left; AssertionError when a promise is broken."""
    try:
        case.check(house)
        complaints = check(house.client())
        assert not complaints, "the oracle complains:\n  " + "\n  ".join(complaints)
    finally:
        house.close()
