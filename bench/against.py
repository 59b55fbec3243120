"""This tree against another commit: the same figures of both, in turns, and whether this tree is as good.

The other commit is checked out as a worktree in a scratch folder, which is taken away at the end, also after Ctrl-C and
SIGTERM. Both trees are run by this interpreter with what is installed for it. A turn is `python -m bench --only FIGURE
--repeat 1` of a tree, in a process of its own; before the first, each tree has to show that its processes import its
own packages. A ratio above 1 is better for every figure, also where less is better. Only values are compared: the
ratios and bars inside a figure are not, and rivals are left out, because they are the same on both sides.

Does not install anything for the other commit: one that needs other dependencies cannot be compared.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from types import FrameType

import msgspec

from bench.contest import Rates, Ratio, hold
from bench.figure import Better, significant
from bench.rivals import LEFT_OUT
from bench.scratch import folder_in

ROOT = Path(__file__).parent.parent
PAIRS, LEAST = 7, 0.93

THIS, OTHER = "this tree", "other"
_PACKAGES = "import bench, ramify; print(bench.__file__, ramify.__file__, sep='\\n')"
_GRACE = 5.0


class CannotCompare(Exception):
    """The two trees cannot be measured side by side; the text says why, in one line."""


class Measured(msgspec.Struct, frozen=True):
    """What is read of a figure's line. Commits from before figures said what is better are asked for the value only."""

    value: float
    unit: str
    better: Better = "more"


@dataclass(frozen=True)
class Side:
    """A tree whose figures are measured: what it is called, where it is, and the folder of its turns."""

    name: str
    root: Path
    folder: Path

    def figures(self) -> frozenset[str]:
        """The names of the figures that it has."""
        return frozenset(line.split()[0] for line in self._bench("--list").splitlines())

    def measure(self, figure: str, scale: float) -> Measured:
        """Measure a figure once."""
        printed = self._bench(
            "--only", figure, "--scale", str(scale), "--repeat", "1", "--dir", str(self.folder), "--json"
        )
        return msgspec.json.decode(printed.splitlines()[-1], type=Measured)

    def check_imports(self) -> None:
        """Refuse a tree whose processes would import the packages of another: the installed one is found anywhere."""
        # Not from the root: the processes of a turn work in folders of their own.
        printed = self._run([sys.executable, "-c", _PACKAGES], self.folder)
        for file in map(Path, printed.splitlines()):
            if not file.resolve().is_relative_to(self.root.resolve()):
                raise CannotCompare(f"{self.name} in {self.root} would be measured with {file}: run it with its .venv")

    def _bench(self, *words: str) -> str:
        return self._run([sys.executable, "-m", "bench", *words], self.root)

    def _run(self, command: Sequence[str], folder: Path) -> str:
        environment = {**os.environ, "PYTHONPATH": str(self.root), LEFT_OUT: "1"}
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            printed, said = process.communicate()
        except BaseException:
            _end(process)
            raise
        # Its exit code alone tells little: a figure without its rivals is one too.
        if not printed.strip():
            words = said.strip().splitlines() or ["it printed nothing"]
            raise CannotCompare(
                f"`{' '.join(command[1:])}` of {self.name} ended with exit code {process.returncode}: {words[-1]}"
            )
        return printed


@dataclass(frozen=True)
class Pairs:
    """What both trees reached at a figure, turn by turn, and the least share of the other that is as good."""

    figure: str
    unit: str
    better: Better
    this: Sequence[float]
    other: Sequence[float]
    commit: str
    scale: float
    least: float = LEAST
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    @property
    def ratio(self) -> Ratio:
        """How much better this tree is, pair by pair: above 1 it is, whatever the figure counts."""
        rates = Rates({THIS: self.this, OTHER: self.other})
        return rates.ratio(THIS, OTHER) if self.better == "more" else rates.ratio(OTHER, THIS)

    @property
    def is_as_good(self) -> bool:
        """Whether the median of the ratios is at least the least."""
        return self.ratio.median >= self.least

    def line(self) -> str:
        """The comparison as one line of JSON."""
        ratio = self.ratio
        page: dict[str, object] = {
            "name": self.figure,
            "against": self.commit,
            "ratio": significant(ratio.median),
            "spread": None if ratio.spread is None else significant(ratio.spread),
            "least": self.least,
            "met": self.is_as_good,
            "pairs": len(self.this),
            "unit": self.unit,
            "better": self.better,
            "this": self.this,
            "other": self.other,
            "scale": self.scale,
            "load": round(self.load, 1),
        }
        return msgspec.json.encode(page).decode()

    def words(self) -> str:
        """The comparison as a few lines for people."""
        ratio, count = self.ratio, len(self.this)
        pairs = "one pair" if count == 1 else f"{count} pairs"
        spread = "no spread" if ratio.spread is None else f"spread {ratio.spread:.0%}"
        this, other = (f"{significant(median(values)):,}" for values in (self.this, self.other))
        return "\n".join(
            (
                f"{self.figure:<28}{significant(ratio.median):>12,} x {self.commit}   "
                f"({pairs}, {spread}, load {self.load:.1f})",
                f"{'':<30}{this} against {other} {self.unit}; {self.better} is better",
                f"{'':<30}{'as good' if self.is_as_good else 'WORSE'}: at least {self.least} of it",
            )
        )


@dataclass(frozen=True)
class New:
    """A figure that the other commit does not have: there is nothing to compare it with."""

    figure: str
    commit: str
    is_as_good: bool = True

    def line(self) -> str:
        """That it is new, as one line of JSON."""
        return msgspec.json.encode({"name": self.figure, "against": self.commit, "new": True}).decode()

    def words(self) -> str:
        """That it is new, for people."""
        return f"{self.figure:<28}{'new':>12}: {self.commit} does not have it, so it is not compared"


@contextmanager
def sides(commit: str, folder: Path) -> Iterator[tuple[Side, Side]]:
    """This tree and the other commit's, ready to be measured; CannotCompare says why they are not."""
    short = _known(commit)
    with _ended_by_sigterm(), folder_in(folder.resolve()) as scratch:
        turns, root = scratch / "turns", scratch / "tree"
        turns.mkdir()
        try:
            _git("worktree", "add", "--quiet", "--detach", str(root), short)
            _stand_alone(root)
            both = Side(THIS, ROOT, turns), Side(short, root, turns)
            for side in both:
                side.check_imports()
            yield both
        finally:
            with suppress(CannotCompare):
                _git("worktree", "remove", "--force", str(root))


def compare(figure: str, this: Side, other: Side, scale: float, pairs: int = PAIRS, least: float = LEAST) -> Pairs:
    """Measure a figure of both sides in turns."""
    seen: list[Measured] = []

    def value(side: Side) -> float:
        seen.append(side.measure(figure, scale))
        return seen[-1].value

    turns = hold({f"{figure} of {side.name}": partial(value, side) for side in (this, other)}, pairs).turns
    mine, its = turns.values()
    return Pairs(figure, seen[0].unit, seen[0].better, mine, its, other.name, scale, least)


def _known(commit: str) -> str:
    """The short name of a commit of this tree's repository."""
    try:
        top = _git("rev-parse", "--show-toplevel")
    except CannotCompare as error:
        raise CannotCompare(f"--against needs a git checkout, and {ROOT} is none: {error}") from None
    if Path(top).resolve() != ROOT.resolve():
        raise CannotCompare(f"--against needs a git checkout, and {ROOT} is none: it lies in that of {top}")
    try:
        return _git("rev-parse", "--verify", "--short", "--end-of-options", commit + "^{commit}")
    except CannotCompare:
        raise CannotCompare(f"--against {commit}: no such commit in {ROOT}") from None


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    except FileNotFoundError:
        raise CannotCompare("there is no git") from None
    if done.returncode:
        raise CannotCompare((done.stderr.strip().splitlines() or [f"git {words[0]} failed"])[-1])
    return done.stdout.strip()


def _stand_alone(root: Path) -> None:
    """Let processes of the tree find its own packages, and none of them rivals.

    Turns tell their processes the root of their tree and nothing else; there, `ramify` is otherwise the installed one,
    which is that of this tree.
    """
    with suppress(FileExistsError):
        (root / "ramify").symlink_to(Path("src") / "ramify")
    # A file where the environment of the rivals would be made; commits that do not know LEFT_OUT find none then.
    (root / ".bench-venv").touch()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """A polite end is an exception, so that what was made is taken away."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(process: subprocess.Popen[str]) -> None:
    """End a turn with all its processes, and let it first end those that are in a session of their own."""
    for how in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
