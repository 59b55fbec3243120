"""One commit against another: its own packages are measured, the verdict follows from the pairs, and nothing stays."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import against, rivals
from bench.against import CannotCompare, Pairs, compare, sides
from bench.figure import Better, Figure

#: Stands where the benchmarks of a tree stand. Like theirs, its measuring process is told the root and nothing else.
#: The value is what the `ramify` imported there says, and the unit is where that lies.
BENCH = """
import json, os, subprocess, sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
ASK = "import json, ramify, sys; print(json.dumps([ramify.VALUES[sys.argv[1]], ramify.__file__]))"
names = ["frontier/wide", "frontier/latency"] + (["frontier/lanes"] if (ROOT / "newer").exists() else [])
if "--list" in sys.argv:
    print("".join(f"{name:<28}a figure\\n" for name in names), end="")
else:
    name, folder = (sys.argv[sys.argv.index(word) + 1] for word in ("--only", "--dir"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    asked = subprocess.run([sys.executable, "-c", ASK, name], cwd=folder, env=environment, stdout=subprocess.PIPE)
    value, place = json.loads(asked.stdout)
    better = "less" if name == "frontier/latency" else "more"
    print(json.dumps({"name": name, "value": value, "unit": place, "better": better}))
"""
#: A measurement that does not end, and says which process it is.
HANGS = 'import os, signal; open("pid.new", "w").write(str(os.getpid())); os.rename("pid.new", "pid"); signal.pause()\n'


def git(repository: Path, *words: str) -> str:
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    done = subprocess.run(["git", "-C", repository, *who, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(repository: Path, values: dict[str, float]) -> None:
    (repository / "src/ramify/__init__.py").write_text(f"VALUES = {values}\n")
    git(repository, "add", "bench", "src", *(["newer"] if (repository / "newer").exists() else []))
    git(repository, "commit", "--quiet", "--message", "measured")


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A checkout with two commits; the second is slower at one figure, takes longer at another, and has one more."""
    root = tmp_path / "checkout"
    for folder in ("bench", "src/ramify"):
        (root / folder).mkdir(parents=True)
    (root / "bench/__init__.py").touch()
    (root / "bench/__main__.py").write_text(BENCH)
    git(root, "init", "--quiet")
    commit(root, {"frontier/wide": 100.0, "frontier/latency": 4.0})
    (root / "newer").touch()
    commit(root, {"frontier/wide": 90.0, "frontier/latency": 5.0, "frontier/lanes": 1.0})
    # What the editable install does for this tree.
    (root / "ramify").symlink_to("src/ramify")
    monkeypatch.setattr(against, "ROOT", root)
    return root


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def pairs(this: list[float], other: list[float], better: Better = "more", least: float = 0.93) -> Pairs:
    return Pairs("frontier/wide", "tasks/s", better, this, other, "abc1234", scale=1, least=least, load=0.0)


def printed_by(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = command.main(words)
    return code, out.getvalue(), err.getvalue()


def wait_until(true: Callable[[], object]) -> None:
    """Until something holds that nobody announces."""
    end, never = time.monotonic() + 30, threading.Event()
    while not true():
        assert time.monotonic() < end, "it never came true"
        never.wait(0.005)


def test_the_verdict_is_by_the_median_of_the_ratios_of_pairs() -> None:
    found = pairs([80.0, 95.0, 400.0], [100.0, 100.0, 100.0])
    assert found.ratio.median == pytest.approx(0.95)
    assert found.ratio.spread == pytest.approx((4.0 - 0.8) / 0.95)
    assert found.is_as_good
    assert not pairs([80.0, 92.0, 400.0], [100.0, 100.0, 100.0]).is_as_good
    assert pairs([93.0], [100.0]).is_as_good
    assert pairs([93.0], [100.0]).ratio.spread is None
    assert not pairs([99.0], [100.0], least=1.0).is_as_good


def test_more_than_one_is_better_also_where_less_is() -> None:
    assert pairs([5.0], [4.0], better="less").ratio.median == 0.8
    assert not pairs([5.0], [4.0], better="less").is_as_good
    assert pairs([4.0], [5.0], better="less").ratio.median == 1.25


def test_a_comparison_says_what_it_was_made_of() -> None:
    found = pairs([80.0, 92.0, 70.0], [100.0, 100.0, 100.0])
    assert "0.8 x abc1234   (3 pairs, spread 28%, load 0.0)" in found.words()
    assert "80.0 against 100 tasks/s; more is better" in found.words()
    assert "WORSE: at least 0.93 of it" in found.words()
    page = json.loads(found.line())
    assert (page["ratio"], page["met"], page["this"], page["other"]) == (0.8, False, [80, 92, 70], [100, 100, 100])


def test_a_figure_says_whether_more_or_less_of_it_is_better() -> None:
    line = Figure("x/time", 1.0, "ms", {}, {}, scale=1, repeat=1, better="less").line()
    assert json.loads(line)["better"] == "less"
    assert json.loads(Figure("x/rate", 1.0, "tasks/s", {}, {}, scale=1, repeat=1).line())["better"] == "more"


def test_each_tree_is_measured_with_its_own_packages_in_turns_and_nothing_stays(
    repository: Path, scratch: Path
) -> None:
    with sides("HEAD~1", scratch) as (this, other):
        assert (this.root, other.root.is_relative_to(scratch)) == (repository, True)
        mine, its = this.measure("frontier/wide", 1), other.measure("frontier/wide", 1)
        assert (mine.value, Path(mine.unit).resolve()) == (90, repository / "src/ramify/__init__.py")
        assert (its.value, Path(its.unit).resolve()) == (100, other.root / "src/ramify/__init__.py")
        found = compare("frontier/wide", this, other, scale=1, pairs=2)
    assert (found.this, found.other, found.ratio.median) == ([90, 90], [100, 100], 0.9)
    assert list(scratch.iterdir()) == []
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_tree_that_would_be_measured_with_the_installed_packages_is_refused(repository: Path, scratch: Path) -> None:
    (repository / "ramify").unlink()
    with pytest.raises(CannotCompare, match=r"this tree in .*checkout would be measured with .*ramify"):
        sides("HEAD", scratch).__enter__()
    assert list(scratch.iterdir()) == []


def test_the_exit_code_says_whether_every_figure_is_as_good(repository: Path, scratch: Path) -> None:
    asked = ("frontier", "--dir", str(scratch), "--against", "HEAD~1", "--pairs", "1", "--json")
    code, out, _ = printed_by(*asked, "--only", "wide", "--only", "latency", "--only", "lanes")
    commit_name = git(repository, "rev-parse", "--short", "HEAD~1")
    lanes, latency, wide = sorted((json.loads(line) for line in out.splitlines()), key=lambda page: str(page["name"]))
    assert (wide["ratio"], wide["met"], latency["ratio"], latency["met"]) == (0.9, False, 0.8, False)
    assert lanes == {"name": "frontier/lanes", "against": commit_name, "new": True}
    assert code == 1
    assert printed_by(*asked, "--only", "wide", "--least", "0.9")[0] == 0
    code, out, _ = printed_by(*asked[:-1], "--only", "lanes")
    assert (code, out.split()[:2]) == (0, ["frontier/lanes", "new:"])


def test_an_unknown_commit_and_a_tree_without_git_are_refused_in_a_line(
    monkeypatch: pytest.MonkeyPatch, repository: Path, scratch: Path
) -> None:
    asked = ("frontier", "--only", "wide", "--dir", str(scratch), "--against")
    code, out, err = printed_by(*asked, "nowhere")
    assert (code, out, err.splitlines()[-1]) == (2, "", f"--against nowhere: no such commit in {repository}")
    inside = repository / "src"
    monkeypatch.setattr(against, "ROOT", inside)
    assert f"--against needs a git checkout, and {inside} is none: it lies in" in printed_by(*asked, "HEAD")[2]
    monkeypatch.setattr(against, "ROOT", scratch)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(scratch.parent))
    code, out, err = printed_by(*asked, "HEAD")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"--against needs a git checkout, and {scratch} is none: ")


def test_a_figure_that_cannot_be_measured_is_named_with_its_commit(repository: Path, scratch: Path) -> None:
    (repository / "bench/__main__.py").write_text("raise SystemExit('no disk')\n")
    with sides("HEAD", scratch) as (this, _), pytest.raises(CannotCompare, match="code 1: no disk"):
        this.measure("frontier/wide", 1)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_comparison_leaves_no_tree_and_no_process(
    repository: Path, scratch: Path, how: signal.Signals
) -> None:
    measuring = repository / "pid"
    (repository / "bench/__main__.py").write_text(f"import sys\nif '--list' not in sys.argv:\n    {HANGS}")
    git(repository, "commit", "--quiet", "--all", "--message", "hangs")
    (repository / "bench/__main__.py").write_text(f"import sys\n{HANGS}")
    program = (
        "import signal, sys; from pathlib import Path; from bench import against\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "against.ROOT = Path(sys.argv[1])\n"
        "with against.sides('HEAD', Path(sys.argv[2])) as (this, other): this.measure('frontier/wide', 1)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, repository, scratch], stderr=subprocess.DEVNULL)
    try:
        wait_until(measuring.exists)
        process.send_signal(how)
        assert process.wait(30) != 0
    finally:
        process.kill()
        process.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(int(measuring.read_text()), 0)
    assert list(scratch.iterdir()) == []
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_rivals_that_are_left_out_are_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rivals, "PLACE", tmp_path / "place")
    monkeypatch.setenv(rivals.LEFT_OUT, "1")
    with pytest.raises(rivals.Missing, match="left out"):
        rivals.python()
    assert list(tmp_path.iterdir()) == []
