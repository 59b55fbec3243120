"""The mutant runner catches what it should, calls a miss a miss, and never touches the tree it was given.

That our own mutants fit the code is a rule of `make check` and not a test: in a copy with a bug planted one never fits,
so such a test would seem to catch everything.
"""

import asyncio
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.house.planted import REPOSITORY
from tools.mutants import LIMIT, TEST_LIMIT, Bench, Judged, Mutant, Verdict, judge, load, main, plant, registry_matches
from tools.tree import files

CODE = '"""Sums."""\n\n\ndef add(a: int, b: int) -> int:\n    """The sum."""\n    return a + b\n'
TEST = (
    '"""Sums."""\n\nfrom ramify.sums import add\n\n\n'
    "def test_two_and_two_make_four() -> None:\n    assert add(2, 2) == 4\n"
)


MEETS = '''"""Sums."""

import os
import time
from pathlib import Path

from ramify.sums import add


def test_they_meet() -> None:
    sum = add(2, 2)
    Path(f"{folder}/{own}.{{sum}}").touch()
    end = time.monotonic() + 20
    while not Path(f"{folder}/{other}.{{sum}}").exists():
        assert time.monotonic() < end
        os.sched_yield()
    assert sum == 4
'''


def mutant(**changes: object) -> str:
    table: dict[str, object] = {
        "name": "subtracts",
        "file": "src/ramify/sums.py",
        "old": "a + b",
        "new": "a - b",
        "tests": ["tests/test_sums.py"],
        "why": "a sum must add",
    }
    table.update(changes)
    return "[[mutant]]\n" + "".join(f"{name} = {value!r}\n" for name, value in table.items())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one function and one test, complete enough to run pytest in."""
    root = tmp_path / "project"
    pages = {"src/ramify/__init__.py": '"""Ramify."""\n', "src/ramify/sums.py": CODE, "tests/test_sums.py": TEST}
    for name, text in pages.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    # pytest loads the plug-in of the Ramify that is installed, from the tree whose package comes first: this one.
    for name in ("pyproject.toml", "tests/conftest.py", ".gitignore", "src/ramify/pytest_plugin.py"):
        shutil.copy(REPOSITORY / name, root / name)
    (root / "tools/mutants").mkdir(parents=True)
    return root


def register(root: Path, *tables: str) -> list[Mutant]:
    (root / "tools/mutants/sums.toml").write_text("\n".join(tables))
    return load(root)


def judged(root: Path, mutants: Sequence[Mutant], jobs: int = 1) -> list[Judged]:
    return asyncio.run(judge(root, mutants, jobs))


def ran(root: Path, limit: float = LIMIT, jobs: int = 1) -> Verdict:
    """Run the test of the project in a copy of it."""
    tests = ["tests/test_sums.py"]

    async def run() -> Verdict:
        bench = Bench(root.parent, jobs)
        await bench.prepare(root, tests)
        return await bench.run(tests, limit)

    return asyncio.run(run())


def state(root: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in files(root)}


def test_a_mutant_that_a_test_notices_is_caught_and_the_tree_is_left_alone(root: Path) -> None:
    mutants = register(root, mutant())
    before = state(root)
    [(_, caught, text, _)] = judged(root, mutants)
    assert caught
    assert text == "caught by test_two_and_two_make_four"
    assert state(root) == before


def test_a_mutant_that_no_test_notices_is_missed_and_fails_the_command(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(root, mutant(new="a + b + 0"))
    assert main(root, []) == 1
    printed = capsys.readouterr().out
    assert "MISSED by tests/test_sums.py" in printed
    assert "0 of 1 caught" in printed


def test_each_test_that_is_named_by_itself_must_notice(root: Path) -> None:
    blind = "\n\ndef test_sums_are_numbers() -> None:\n    assert add(2, 2) is not None\n"
    (root / "tests/test_sums.py").write_text(TEST + blind)
    sees, sees_not = (f"tests/test_sums.py::{name}" for name in ("test_two_and_two_make_four", "test_sums_are_numbers"))
    mutants = register(
        root, mutant(tests=[sees, sees_not]), mutant(name="other", tests=[sees]), mutant(name="third", tests=[sees_not])
    )
    assert [(caught, text) for _, caught, text, _ in judged(root, mutants)] == [
        (False, f"MISSED by {sees_not}"),
        (True, "caught by test_two_and_two_make_four"),
        (False, f"MISSED by {sees_not}"),
    ]


@pytest.mark.parametrize("jobs", [1, 2])
def test_without_the_bug_the_tests_of_a_file_run_together_once(root: Path, jobs: int) -> None:
    """Each test notes that it ran: without a bug one after the other in one process, with it one in each."""
    notes = root.parent / "notes"
    head = [
        '"""Sums."""', "import os", "from ramify.sums import add", "def note(name):",
        f'    with open({str(notes)!r}, "a") as page:', '        page.write(f"{os.getpid()} {name}\\n")', "",
    ]  # fmt: skip
    both = "".join(f'\n\ndef test_{name}() -> None:\n    note("{name}")\n    assert add(2, 2) == 4\n' for name in "ab")
    (root / "tests/test_sums.py").write_text("\n".join(head) + both)
    mutants = register(root, *(mutant(name=name, tests=[f"tests/test_sums.py::test_{name}"]) for name in "ab"))
    assert [caught for _, caught, _, _ in judged(root, mutants, jobs)] == [True, True]
    noted = [line.split() for line in notes.read_text().splitlines()]
    assert [name for _, name in noted[:2]] == ["a", "b"]
    assert sorted(name for _, name in noted[2:]) == ["a", "b"]
    assert len({process for process, _ in noted}) == 3


def test_several_are_judged_at_a_time(root: Path) -> None:
    """Two tests wait for each other, first without the bug and then with it."""
    for own, other in ("ab", "ba"):
        (root / f"tests/test_{own}.py").write_text(MEETS.format(folder=root.parent, own=own, other=other))
    mutants = register(root, *(mutant(name=name, tests=[f"tests/test_{name}.py"]) for name in "ab"))
    assert [text for _, _, text, _ in judged(root, mutants, jobs=2)] == 2 * ["caught by test_they_meet"]


def test_of_several_at_a_time_each_may_take_so_many_times_as_long(root: Path) -> None:
    (root / "tests/test_sums.py").write_text(
        '"""Limits."""\n\nimport signal\n\nimport pytest\n\n\n'
        "def test_it(pytestconfig: pytest.Config) -> None:\n"
        f'    assert pytestconfig.getoption("--timeout") == {3 * TEST_LIMIT}\n    signal.pause()\n'
    )
    assert ran(root, limit=1, jobs=3).trouble == "the tests took over 3 s"


def test_a_test_that_is_broken_without_the_bug_breaks_no_mutant_of_others(root: Path) -> None:
    skipped = '\n\n@pytest.mark.skip("later")\ndef test_later() -> None:\n    assert add(2, 2) == 4\n'
    (root / "tests/test_sums.py").write_text(TEST.replace("from", "import pytest\nfrom", 1) + skipped)
    names = ["test_two_and_two_make_four", "test_later", "test_gone"]
    mutants = register(root, *(mutant(name=name, tests=[f"tests/test_sums.py::{name}"]) for name in names))
    told = [text for _, _, text, _ in judged(root, mutants)]
    assert told[0] == "caught by test_two_and_two_make_four"
    assert all(text.startswith("BROKEN: without the bug, no test ran") for text in told[1:])


def test_of_a_file_one_test_that_notices_is_enough(root: Path) -> None:
    blind = "\n\ndef test_sums_are_numbers() -> None:\n    assert add(2, 2) is not None\n"
    (root / "tests/test_sums.py").write_text(TEST + blind)
    [(_, caught, _, _)] = judged(root, register(root, mutant()))
    assert caught


def test_tests_that_fail_without_the_bug_catch_nothing(root: Path) -> None:
    (root / "tests/test_sums.py").write_text(TEST.replace("== 4", "== 5"))
    [(_, caught, text, _)] = judged(root, register(root, mutant()))
    assert not caught
    assert text.startswith("BROKEN: without the bug, tests/test_sums.py::")


def test_a_mutant_that_cannot_be_imported_is_broken_and_not_caught(root: Path) -> None:
    [(_, caught, text, _)] = judged(root, register(root, mutant(new="a +")))
    assert not caught
    assert text.startswith("BROKEN: no test ran to its end")


def test_a_selection_that_finds_no_test_is_broken(root: Path) -> None:
    [(_, caught, text, _)] = judged(root, register(root, mutant(tests=["tests/test_sums.py::test_gone"])))
    assert not caught
    assert text.startswith("BROKEN: without the bug, no test ran to its end")


def test_tests_that_only_skip_are_broken(root: Path) -> None:
    (root / "tests/test_sums.py").write_text(
        TEST.replace("def test", '@pytest.mark.skip("later")\ndef test').replace("from", "import pytest\nfrom", 1)
    )
    [(_, caught, text, _)] = judged(root, register(root, mutant()))
    assert not caught
    assert "no test ran to its end" in text


@pytest.mark.full
def test_tests_that_run_over_the_limit_are_ended_with_all_they_started(root: Path) -> None:
    limit = 4 * ran(root).seconds  # long enough to begin, on a busy machine too
    pids = hang(root)
    verdict = ran(root, limit)
    assert verdict.trouble is not None
    assert verdict.trouble.startswith("the tests took over")
    assert len(pids()) == 2
    wait_until(lambda: all(map(is_gone, pids())), "the processes to go")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_all_it_started_and_leaves_nothing_behind(root: Path, number: int) -> None:
    register(root, mutant(), mutant(name="other"))
    pids = hang(root)
    temporary = root.parent / "temporary"
    temporary.mkdir()
    here = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(temporary)}
    runner = subprocess.Popen(
        [sys.executable, "-m", "tools.mutants"], cwd=root, env={**os.environ, **here}, stdout=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: len(pids()) == 2, "the test to begin")
        runner.send_signal(number)
        assert runner.communicate(timeout=20)[0] == "stopped\n"
        assert runner.returncode == 1
        wait_until(lambda: all(map(is_gone, pids())), "the processes to go")
    finally:
        runner.kill()
        for pid in pids():
            if not is_gone(pid):
                os.kill(pid, signal.SIGKILL)
    assert [path.name for path in temporary.iterdir() if path.name.startswith("ramify-mutants-")] == []


def test_a_hanging_test_fails_before_the_whole_selection_runs_out_of_time() -> None:
    assert TEST_LIMIT * 2 <= LIMIT


def test_the_copy_is_what_is_tested_and_not_the_installed_project(root: Path) -> None:
    (root / "tests/test_sums.py").write_text(
        '"""Places."""\n\nimport subprocess\nimport sys\nfrom pathlib import Path\n\nimport ramify\n\n\n'
        "def test_this_process_and_its_children_import_the_copy() -> None:\n"
        '    here = Path(__file__).parents[1] / "src/ramify/__init__.py"\n'
        "    assert Path(ramify.__file__) == here\n"
        '    command = [sys.executable, "-c", "import ramify; print(ramify.__file__)"]\n'
        "    assert Path(subprocess.check_output(command, text=True).strip()) == here\n"
    )
    verdict = ran(root)
    assert (verdict.failed, verdict.trouble) == ((), None)


def test_a_process_in_a_copy_finds_everything_compiled(root: Path) -> None:
    (root / "tests/test_sums.py").write_text(
        '"""Compiled."""\n\nfrom importlib.util import cache_from_source\nfrom pathlib import Path\n\n'
        "from ramify import sums\n\n\n"
        "def test_what_it_imports_was_compiled_for_it_and_for_others() -> None:\n"
        "    compiled = Path(cache_from_source(sums.__file__))\n"
        '    assert len(list(compiled.parent.glob("sums.*-pytest-*.pyc"))) == 1\n'
        "    assert compiled.exists()\n"
    )
    verdict = ran(root)
    assert (verdict.failed, verdict.trouble) == ((), None)


def test_a_bug_with_the_size_and_the_second_of_what_it_replaces_is_what_is_imported(root: Path) -> None:
    [bug] = register(root, mutant())
    target = root / bug.file
    py_compile.compile(str(target))
    before = target.stat()
    plant(root, bug)
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert target.stat().st_size == before.st_size
    command = [sys.executable, "-c", "from ramify.sums import add; print(add(2, 2))"]
    assert subprocess.check_output(command, env={**os.environ, "PYTHONPATH": str(root / "src")}, text=True) == "0\n"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"old": "a * b"}, "0 times"),
        ({"old": "a"}, "times, not once"),
        ({"file": "src/ramify/gone.py"}, "0 times"),
        ({"new": "a + b"}, "the same"),
        ({"tests": ["tests/test_gone.py::test_it"]}, "does not exist"),
        ({"tests": []}, "names no tests"),
    ],
)
def test_a_mutant_that_no_longer_fits_the_code_is_found(root: Path, changes: dict[str, object], says: str) -> None:
    register(root, mutant(**changes))
    findings = [str(finding) for finding in registry_matches(root)]
    assert len(findings) == 1
    assert says in findings[0]
    assert main(root, []) == 1


def test_two_mutants_of_one_name_are_found(root: Path) -> None:
    register(root, mutant(), mutant())
    assert ["the name is taken" in str(finding) for finding in registry_matches(root)] == [True]


def test_a_mutant_with_a_field_too_many_is_an_error(root: Path) -> None:
    with pytest.raises(ValueError, match="colour"):
        register(root, mutant(colour="red"))


def test_an_unknown_name_is_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register(root, mutant())
    assert main(root, ["multiplies"]) == 1
    assert "no mutant is called multiplies" in capsys.readouterr().out


def test_an_empty_registry_is_an_error(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(root, []) == 1
    assert "holds no mutants" in capsys.readouterr().out


def hang(root: Path) -> Callable[[], list[int]]:
    """Let the test of the project wait for ever, with a child, and return how to find both."""
    page = root.parent / "pids"
    (root / "tests/test_sums.py").write_text(
        '"""Hangs."""\n\nimport os\nimport subprocess\nimport sys\n\n\ndef test_it_waits_for_ever() -> None:\n'
        '    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])\n'
        f'    with open({str(page)!r}, "w") as page:\n        page.write(f"{{os.getpid()}} {{child.pid}}")\n'
        "    child.wait()\n"
    )
    return lambda: [int(pid) for pid in page.read_text().split()] if page.exists() else []


def wait_until(fact: Callable[[], bool], what: str) -> None:
    pause = threading.Event()
    until = time.monotonic() + 20
    while not fact():
        assert time.monotonic() < until, f"waited in vain for {what}"
        pause.wait(0.01)


def is_gone(pid: int) -> bool:
    """Whether a killed process has ended; a zombie that nobody collects counts as gone."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return True
    return state == "Z"
