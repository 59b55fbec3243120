"""The mutant runner catches what it should, calls a miss a miss, and never touches the tree it was given.

That our own mutants fit the code is a rule of `make check` and not a test: in a copy with a bug planted one never fits,
so such a test would seem to catch everything.
"""

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from tests.house.planted import REPOSITORY
from tools.mutants import LIMIT, TEST_LIMIT, Mutant, judge, load, main, registry_matches, run_tests
from tools.tree import files

CODE = '"""Sums."""\n\n\ndef add(a: int, b: int) -> int:\n    """The sum."""\n    return a + b\n'
TEST = (
    '"""Sums."""\n\nfrom ramify.sums import add\n\n\n'
    "def test_two_and_two_make_four() -> None:\n    assert add(2, 2) == 4\n"
)


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


def state(root: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in files(root)}


def test_a_mutant_that_a_test_notices_is_caught_and_the_tree_is_left_alone(root: Path) -> None:
    mutants = register(root, mutant())
    before = state(root)
    [(_, caught, text, _)] = judge(root, mutants)
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
    assert [(caught, text) for _, caught, text, _ in judge(root, mutants)] == [
        (False, f"MISSED by {sees_not}"),
        (True, "caught by test_two_and_two_make_four"),
        (False, f"MISSED by {sees_not}"),
    ]


def test_without_the_bug_the_tests_of_a_file_run_together_once(root: Path) -> None:
    """Each test notes that it ran: without a bug one after the other in one process, with it one in each."""
    notes = root.parent / "notes"
    head = [
        '"""Sums."""', "import os", "from ramify.sums import add", "def note(name):",
        f'    with open({str(notes)!r}, "a") as page:', '        page.write(f"{os.getpid()} {name}\\n")', "",
    ]  # fmt: skip
    both = "".join(f'\n\ndef test_{name}() -> None:\n    note("{name}")\n    assert add(2, 2) == 4\n' for name in "ab")
    (root / "tests/test_sums.py").write_text("\n".join(head) + both)
    mutants = register(root, *(mutant(name=name, tests=[f"tests/test_sums.py::test_{name}"]) for name in "ab"))
    assert [caught for _, caught, _, _ in judge(root, mutants)] == [True, True]
    ran = [line.split() for line in notes.read_text().splitlines()]
    assert [name for _, name in ran] == ["a", "b", "a", "b"]
    assert len({process for process, _ in ran}) == 3


def test_a_test_that_is_broken_without_the_bug_breaks_no_mutant_of_others(root: Path) -> None:
    skipped = '\n\n@pytest.mark.skip("later")\ndef test_later() -> None:\n    assert add(2, 2) == 4\n'
    (root / "tests/test_sums.py").write_text(TEST.replace("from", "import pytest\nfrom", 1) + skipped)
    names = ["test_two_and_two_make_four", "test_later", "test_gone"]
    mutants = register(root, *(mutant(name=name, tests=[f"tests/test_sums.py::{name}"]) for name in names))
    told = [text for _, _, text, _ in judge(root, mutants)]
    assert told[0] == "caught by test_two_and_two_make_four"
    assert all(text.startswith("BROKEN: without the bug, no test ran") for text in told[1:])


def test_of_a_file_one_test_that_notices_is_enough(root: Path) -> None:
    blind = "\n\ndef test_sums_are_numbers() -> None:\n    assert add(2, 2) is not None\n"
    (root / "tests/test_sums.py").write_text(TEST + blind)
    [(_, caught, _, _)] = judge(root, register(root, mutant()))
    assert caught


def test_tests_that_fail_without_the_bug_catch_nothing(root: Path) -> None:
    (root / "tests/test_sums.py").write_text(TEST.replace("== 4", "== 5"))
    [(_, caught, text, _)] = judge(root, register(root, mutant()))
    assert not caught
    assert text.startswith("BROKEN: without the bug, tests/test_sums.py::")


def test_a_mutant_that_cannot_be_imported_is_broken_and_not_caught(root: Path) -> None:
    [(_, caught, text, _)] = judge(root, register(root, mutant(new="a +")))
    assert not caught
    assert text.startswith("BROKEN: no test ran to its end")


def test_a_selection_that_finds_no_test_is_broken(root: Path) -> None:
    [(_, caught, text, _)] = judge(root, register(root, mutant(tests=["tests/test_sums.py::test_gone"])))
    assert not caught
    assert text.startswith("BROKEN: without the bug, no test ran to its end")


def test_tests_that_only_skip_are_broken(root: Path) -> None:
    (root / "tests/test_sums.py").write_text(
        TEST.replace("def test", '@pytest.mark.skip("later")\ndef test').replace("from", "import pytest\nfrom", 1)
    )
    [(_, caught, text, _)] = judge(root, register(root, mutant()))
    assert not caught
    assert "no test ran to its end" in text


@pytest.mark.full
def test_tests_that_run_over_the_limit_are_ended_with_all_they_started(root: Path) -> None:
    limit = 4 * run_tests(root, ["tests/test_sums.py"]).seconds  # long enough to begin, on a busy machine too
    (root / "tests/test_sums.py").write_text(
        '"""Hangs."""\n\nimport os\nimport subprocess\nimport sys\n\n\ndef test_it_waits_for_ever() -> None:\n'
        '    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])\n'
        '    with open("pids", "w") as page:\n        page.write(f"{os.getpid()} {child.pid}")\n'
        "    child.wait()\n"
    )
    verdict = run_tests(root, ["tests/test_sums.py"], limit=limit)
    assert verdict.trouble is not None
    assert verdict.trouble.startswith("the tests took over")
    for pid in (root / "pids").read_text().split():
        wait_until_gone(int(pid))


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
    verdict = run_tests(root, ["tests/test_sums.py"])
    assert (verdict.failed, verdict.trouble) == ((), None)


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


def wait_until_gone(pid: int) -> None:
    """A killed process ends by itself; a zombie that nobody collects counts as gone."""
    pause = threading.Event()
    until = time.monotonic() + 20
    while not _gone(pid):
        assert time.monotonic() < until, f"process {pid} is still there"
        pause.wait(0.01)


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return True
    return state == "Z"
