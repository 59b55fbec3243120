"""Seeds, reports and turns for every test run.

Promises: one number, printed in the header, decides everything random in the run (the `seed` fixture and Hypothesis),
and `--seed N` replays it. `--reports FOLDER` writes one JSON file per tier (a tier is a folder below `tests/`) with
outcomes, seeds, seconds and whatever tests counted with pytest's own `record_property("kills", 300)`. What was skipped
or left out is always listed. All of this is the same in one process and with `-n 2`. A test that is marked `alone` has
the machine to itself: no other test goes on beside it, of this run or of others that share a folder with `--beside`.

Deliberately absent: fixtures of any one tier. Those live in that tier's own folder.
"""

import fcntl
import hashlib
import json
import os
import platform
import random
import secrets
import signal
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pytest

hypothesis.settings.register_profile("ramify", deadline=None, print_blob=True)
hypothesis.settings.load_profile("ramify")

# Under nohup, or in the background of a script, these are ignored, and programs that tests start would not hear them.
for _number, _heard in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _heard)

#: What a worker of `-n` is told, and what it answers.
SEED, LEFT_OUT = "ramify_seed", "ramify_left_out"


@dataclass
class Line:
    """What one test did: its place in the report."""

    name: str
    outcome: str = "passed"
    seconds: float = 0.0
    seed: int | None = None
    counts: dict[str, float] = field(default_factory=dict)
    reason: str | None = None


class Ledger:
    """Collects one line per test and writes them out, tier by tier."""

    def __init__(self, seed: int, folder: Path | None) -> None:
        self.seed = seed
        self.folder = folder
        self.left_out: Counter[str] = Counter()
        self._lines: dict[str, Line] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[SEED] = self.seed

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # Every worker leaves out the same tests, so what one of them says is true of the run.
        self.left_out = Counter(getattr(node, "workeroutput", {}).get(LEFT_OUT, self.left_out))

    def pytest_report_header(self) -> str:
        return f"seed: {self.seed} (replay with --seed {self.seed})"

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.left_out.update("full" if item.get_closest_marker("full") else "other" for item in items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        line = self._lines.setdefault(report.nodeid, Line(report.nodeid))
        line.seconds += report.duration
        if report.failed:
            line.outcome = "failed"
        elif report.skipped and line.outcome == "passed":
            line.outcome = "skipped"
            line.reason = _reason(report)
        if report.when == "teardown":
            _take_properties(line, report.user_properties)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"seed: {self.seed}")
        if self.left_out["full"]:
            terminalreporter.write_line(f"not selected: {self.left_out['full']} of the full tier (make test-full)")
        if self.left_out["other"]:
            terminalreporter.write_line(f"not selected: {self.left_out['other']} by -m or -k")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            # Whoever started this worker hears of every test and reports it.
            output[LEFT_OUT] = dict(self.left_out)
            return
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        tiers: dict[str, list[Line]] = {}
        for line in self._lines.values():
            tiers.setdefault(_tier(line.name), []).append(line)
        for tier, lines in tiers.items():
            self._write(tier, lines, exitstatus)

    def _write(self, tier: str, lines: list[Line], exitstatus: int) -> None:
        counts: dict[str, float] = {}
        for line in lines:
            for name, value in line.counts.items():
                counts[name] = counts.get(name, 0) + value
        page = {
            "tier": tier,
            "seed": self.seed,
            "exit": int(exitstatus),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "seconds": round(sum(line.seconds for line in lines), 3),
            "outcomes": dict(sorted(Counter(line.outcome for line in lines).items())),
            "counts": dict(sorted(counts.items())),
            "tests": [_as_json(line) for line in lines],
        }
        assert self.folder is not None
        (self.folder / f"{tier}.json").write_text(json.dumps(page, indent=2) + "\n", encoding="utf-8")


class Beside:
    """What a worker or a run does because there are others: it takes turns, and sends home what it saw.

    Tests of several run side by side, and those marked `alone` by themselves.
    """

    def __init__(self, folder: Path) -> None:
        self._door = (folder / "door").open("w")
        self._room = (folder / "room").open("w")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        # Whoever waits for an empty room holds the door, so that it does empty.
        fcntl.flock(self._door, fcntl.LOCK_EX)
        fcntl.flock(self._room, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH)
        fcntl.flock(self._door, fcntl.LOCK_UN)
        try:
            return (yield)
        finally:
            fcntl.flock(self._room, fcntl.LOCK_UN)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self) -> Generator[None, object, object]:
        return _encodable((yield))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ramify")
    group.addoption("--seed", type=int, default=None, help="replay a run: the number its header printed")
    group.addoption("--reports", type=Path, default=None, metavar="FOLDER", help="write FOLDER/<tier>.json")
    group.addoption("--beside", type=Path, default=None, metavar="FOLDER", help="take turns with all runs that name it")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    told = getattr(config, "workerinput", {})
    chosen: int | None = config.getoption("--seed")
    seed: int = told.get(SEED, secrets.randbelow(2**32)) if chosen is None else chosen
    # Hypothesis reads its own option in its own configure hook, which runs after this one.
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(seed)
    config.pluginmanager.register(Ledger(seed, config.getoption("--reports")), "ramify-ledger")
    # A worker's own folder lies in that of the run.
    shared: Path | None = config.getoption("--beside") or (Path(config.option.basetemp).parent if told else None)
    if shared is not None:
        config.pluginmanager.register(Beside(shared), "ramify-beside")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> random.Random:
    """A generator of this test's own: the same for the same run seed and test, whatever else runs beside it."""
    ledger = request.config.pluginmanager.get_plugin("ramify-ledger")
    assert isinstance(ledger, Ledger)
    digest = hashlib.sha256(f"{ledger.seed}:{request.node.nodeid}".encode()).digest()
    own = int.from_bytes(digest[:6], "big")
    request.node.user_properties.append(("seed", own))
    return random.Random(own)


def _encodable(value: object) -> object:
    """The same without lone surrogates, which tests print and no connection takes."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_encodable(name): _encodable(each) for name, each in value.items()}
        case list() | tuple():
            return type(value)(map(_encodable, value))
        case _:
            return value


def _tier(nodeid: str) -> str:
    parts = Path(nodeid.split("::")[0]).parts
    return parts[1] if len(parts) > 2 else "tests"


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(getattr(report, "wasxfail", "no reason given"))


def _take_properties(line: Line, properties: list[tuple[str, object]]) -> None:
    for name, value in properties:
        if name == "seed" and isinstance(value, int):
            line.seed = value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            line.counts[name] = line.counts.get(name, 0) + value


def _as_json(line: Line) -> dict[str, Any]:
    page: dict[str, Any] = {"name": line.name, "outcome": line.outcome, "seconds": round(line.seconds, 3)}
    if line.seed is not None:
        page["seed"] = line.seed
    if line.counts:
        page["counts"] = line.counts
    if line.reason is not None:
        page["reason"] = line.reason
    return page
