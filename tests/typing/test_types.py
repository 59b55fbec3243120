"""What type checkers know: mypy --strict and pyright agree on the public types, accept the README's example without
ignores, and find the mistakes that are planted.

pyright comes as basedpyright, the same checker with its own node, so that nothing is downloaded when it runs.
"""

import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house.pages import blocks

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent

WRONG = """
from datetime import date
from ramify import Engine, Spawns, Stream

engine = Engine()

@engine.task
def grow(path: str) -> Spawns[int]:
    yield grow.of(3)  # wrong
    yield path  # wrong
    return 3

@engine.task
def plain(path: str, depth: int) -> int:
    return len(path) + depth

plain.of("x")  # wrong
plain.of("x", 1, 2)  # wrong
plain.of("x", deep=1)  # wrong
plain("x", "y")  # wrong
engine.run(grow)  # wrong
engine.run(grow.of("x"), order="sideways")  # wrong
text: str = sum(engine.run(grow.of("x")).results())  # wrong
engine.values("quota", int).set("acme", "5")  # wrong
engine.values("quota", int).update("acme", str)  # wrong
engine.enqueue(plain.of("x", 1), after=plain.of("x", 1))  # wrong
engine.job_for(plain.of("x", 1), "x")  # wrong

numbers = engine.topic("numbers", int)
numbers.publish("5")  # wrong
numbers.publish_many(["5"])  # wrong
word: str = next(iter(numbers.read("billing"))).value  # wrong

@engine.on(numbers)  # wrong
def hear(text: str) -> None: ...

@engine.task(retry=3)  # wrong
def other(path: str) -> None: ...

@engine.task
def listed(day: date) -> list[str]:
    return [str(day)]

@engine.task
def total(rows: Stream[int]) -> int:
    return sum(rows)

dag = engine.dag("typed")
day = dag.param("day", str)
dag.add(listed.of(day))  # wrong
files = dag.add(listed.of(dag.param("on", date)))
loads = dag.map(plain.of(files.each, 1))
dag.map(plain.of(loads.each, 1))  # wrong
dag.add(plain.of(files.out, 1))  # wrong
dag.add(total.of(loads.out))
dag.add(total.of(files.out))  # wrong
dag.add(plain.of("x", 1), when="sometimes")  # wrong
dag.add(plain)  # wrong
"""

WRONG_PIPELINES = """
from datetime import timedelta
from ramify import Engine, Route, Stream, steps

engine = Engine()
DAY = timedelta(days=1)

@engine.task
def receive(order: str) -> str:
    return order

@engine.task
def count(order: str) -> int:
    return len(order)

@engine.task
def lines(order: str) -> list[str]:
    return [order]

@engine.task
def ship(parcels: Stream[int]) -> str:
    return str(list(parcels))

@engine.task
def merge(parts: list[int]) -> str:
    return str(parts)

@engine.task
def merge_named(parts: dict[str, int]) -> str:
    return str(parts)

@engine.task
def texts(parts: list[str]) -> str:
    return str(parts)

@engine.task
def add(number: int) -> int:
    return number + 1

@engine.task
def decide(order: str, answer: bool) -> Route[str]:
    return Route("ship", order)

steps(count).chain(receive)  # wrong
steps(receive).chain(count).chain(add).chain(count)  # wrong
steps(receive).chain(decide)  # wrong
steps(receive).chain(count.of("x"))  # wrong
steps(receive).chain(steps(count))  # wrong
steps(receive).chain(count, retires=3)  # wrong
steps(receive).chain(count, retries="often")  # wrong
steps(steps(receive))  # wrong
engine.pipeline("x", count)  # wrong
engine.pipeline("x", steps(count)).of(3)  # wrong
engine.pipeline("x", steps(count)).of()  # wrong
number: str = next(engine.run(engine.pipeline("x", steps(count)).of("x")).results())  # wrong
steps(receive).expand(count)  # wrong
steps(lines).expand(add)  # wrong
steps(lines).expand(steps(receive).chain(add))  # wrong
steps(lines).expand(receive).collapse(ship)  # wrong
steps(lines).expand(count).collapse(merge)  # wrong
steps(lines).expand(count).combine(merge)  # wrong
steps(lines).collapse(ship)  # wrong
steps(lines).expand(lines).expand(count).collapse(ship).collapse(ship)  # wrong
steps(receive).combine(merge)  # wrong
steps(receive).converge(count)  # wrong
steps(receive).divide([count, count]).combine(texts)  # wrong
steps(receive).divide([count, count]).combine(merge_named)  # wrong
steps(receive).divide({"a": count, "b": count}).combine(merge)  # wrong
steps(receive).divide([count, add])  # wrong
steps(receive).divide([steps(count), steps(add)])  # wrong
steps(receive).divide({"a": steps(count), "b": add})  # wrong
steps(receive).divide([count]).collapse(ship)  # wrong
steps(receive).gate("ok", bool).chain(count)  # wrong
steps(receive).gate("ok", bool).chain(decide).divert({"a": count})  # wrong
steps(receive).gate("ok", str).chain(decide)  # wrong
steps(receive).gate("ok", bool, timeout=DAY, otherwise="yes").chain(decide)  # wrong
steps(receive).gate("ok", bool, timeout="3")  # wrong
steps(receive).gate("ok", bool).chain(decide).divert({"a": add}, otherwise=count)  # wrong
steps(receive).gate("ok", bool).chain(decide).divert({"a": count}, otherwise=add)  # wrong
steps(receive).gate("ok", bool).chain(decide).divert({"a": count}, otherwise=count).converge(receive)  # wrong
steps(count).run(engine.pipeline("child", steps(receive)))  # wrong
steps(count).run(receive)  # wrong
steps(receive).run(engine.pipeline("fits", steps(receive)).of("x"))  # wrong
steps(receive).divert({"a": count}, otherwise=count).collapse(ship)  # wrong
steps(receive).divide([steps(receive).gate("ok", str)]).combine(merge)  # wrong
steps(receive).sleep("3")  # wrong
"""

# What both must know of `measure`: it takes a str, and an int comes of it in the end.
KNOWN = """
from typing import assert_type
from ramify import Call, Task

known: Task[[str], int] = measure
assert_type(measure.of("x"), Call[int])
"""

Checker = Callable[[list[Path], Path], set[tuple[str, int]]]


def mypy(files: list[Path], folder: Path) -> set[tuple[str, int]]:
    """The places of mypy's errors."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--output=json", *map(str, files)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {(Path(each["file"]).name, each["line"]) for each in found if each["severity"] == "error"}


def pyright(files: list[Path], folder: Path) -> set[tuple[str, int]]:
    """The places of pyright's errors, in its strict mode."""
    for file in files:
        if file.parent != folder:
            shutil.copy(file, folder)
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(REPOSITORY / "src")]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    page = json.loads(done.stdout)
    assert page["summary"]["filesAnalyzed"] == len(files)
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in page["generalDiagnostics"]
        if each["severity"] == "error"
    }


@pytest.mark.parametrize("check", [mypy, pyright])
def test_every_example_of_the_readme_is_understood_without_ignores(check: Checker, tmp_path: Path) -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    examples = [block.text for block in blocks(text) if block.language == "python"]
    assert "def measure(path: str) -> Spawns[int]:" in examples[0]
    files = [write(tmp_path, "first.py", examples[0] + KNOWN)]
    files += [write(tmp_path, f"example{n}.py", text) for n, text in enumerate(examples[1:])]
    assert not any("ignore" in text for text in examples)
    assert check(files, tmp_path) == set()


@pytest.mark.parametrize("check", [mypy, pyright])
def test_all_public_types_are_understood(check: Checker, tmp_path: Path) -> None:
    assert check([HERE / "revealed.py", HERE / "pipelines.py"], tmp_path) == set()


@pytest.mark.parametrize("check", [mypy, pyright])
def test_ramify_gives_out_the_names_of_its_homes_and_no_others(check: Checker, tmp_path: Path) -> None:
    homes = [importlib.import_module(f"ramify.{name}") for name in ("errors", "front", "types")]
    names = sorted(
        {name for home in homes for name in vars(home) if re.fullmatch(r"[A-Z][a-zA-Z]+|current|steps", name)}
    )
    assert len(names) > 90
    lines = ["import ramify", "import ramify.types", "from ramify import Motor as Motor  # wrong"]
    lines += [f"from ramify import {name} as {name}" for name in names]
    # A name that is not known is Any, and anything can be given for that.
    lines += ["known: ramify.RunFailed = 1  # wrong", "counts: ramify.types.Counts = 1  # wrong"]
    marked = {("names.py", n) for n, line in enumerate(lines, start=1) if line.endswith("# wrong")}
    assert check([write(tmp_path, "names.py", "\n".join(lines) + "\n")], tmp_path) == marked


@pytest.mark.parametrize("check", [mypy, pyright])
def test_each_planted_mistake_is_found_and_nothing_else(check: Checker, tmp_path: Path) -> None:
    texts = {"wrong.py": WRONG, "pipelines.py": WRONG_PIPELINES}
    files = [write(tmp_path, name, text) for name, text in texts.items()]
    marked = {(name, n) for name, text in texts.items() for n, line in enumerate(text.splitlines(), start=1)
              if line.endswith("# wrong")}  # fmt: skip
    assert check(files, tmp_path) == marked


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name
