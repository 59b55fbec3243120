"""The verb x store table of the conformance suite, printed at the end of a session that ran it.

A test that proves a case says so with `record_property("store", …)` and `record_property("verb", …)`. A cell shows how
many cases of the verb passed on the store, and how many did not.
"""

import sys
from collections import Counter

import pytest

if "ramify.testing.conformance" not in sys.modules:
    pytest.register_assert_rewrite("ramify.testing.conformance")

Cell = tuple[str, str]

passed: Counter[Cell] = Counter()
broken: Counter[Cell] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    said = dict(report.user_properties)
    if report.when != "call" or not {"store", "verb"} <= said.keys():
        return
    cell = str(said["verb"]), str(said["store"])
    (passed if report.passed else broken)[cell] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not passed and not broken:
        return
    cells = list(dict.fromkeys([*passed, *broken]))
    stores = list(dict.fromkeys(store for _, store in cells))
    terminalreporter.section("the contract, verb by store")
    terminalreporter.write_line(f"{'':12}" + "".join(f"{store:>16}" for store in stores))
    for verb in dict.fromkeys(verb for verb, _ in cells):
        line = "".join(f"{_shown((verb, store)):>16}" for store in stores)
        terminalreporter.write_line(f"{verb:12}{line}")


def _shown(cell: Cell) -> str:
    if not passed[cell] and not broken[cell]:
        return "-"
    return f"{passed[cell]}" + (f" ({broken[cell]} broken)" if broken[cell] else "")
