"""Sets of tasks: declared anywhere, included, and no name twice."""

import runpy
from code import InteractiveInterpreter
from pathlib import Path
from types import ModuleType

import pytest

from ramify import ConfigError, Engine, Tasks
from ramify.engine.tasks.contents import table_of


def first(x: int) -> int:
    return x


def second(x: int) -> int:
    return x


def test_an_engine_knows_what_it_includes_also_what_comes_later() -> None:
    jobs = Tasks()
    engine = Engine("memory:", include=[jobs])
    task = jobs.task(first)
    assert engine._runtime.table() == {"first": task}
    assert engine._runtime.handlers()["first"] is task.handler


def test_a_kind_twice_is_refused_with_both_places() -> None:
    jobs, others = Tasks(), Tasks()
    jobs.task(first)
    others.task(name="first")(second)
    engine = Engine("memory:", include=[jobs])
    with pytest.raises(ConfigError, match=r"test_tasks\.py:14.*test_tasks\.py:18"):
        engine.include(others)
    assert set(engine._runtime.table()) == {"first"}
    with pytest.raises(ConfigError, match="called 'first'"):
        engine.task(name="first")(second)
    with pytest.raises(ConfigError, match="called 'first'"):
        engine.task(aliases=["first"])(second)


def test_a_kind_twice_is_found_also_when_it_came_after_the_include() -> None:
    jobs, others = Tasks(), Tasks()
    engine = Engine("memory:", include=[jobs, others])
    jobs.task(first)
    others.task(name="first")(second)
    with pytest.raises(ConfigError, match="called 'first'"):
        engine._runtime.handlers()


def test_what_is_known_follows_every_later_task_of_an_included_set() -> None:
    inner, outer = Tasks(), Tasks()
    outer.include(inner)
    assert table_of(outer) == {}
    one = inner.task(first)
    assert table_of(outer) == {"first": one}
    assert table_of(outer) is table_of(outer), "made once"
    other = inner.task(name="second")(second)
    assert table_of(outer) == {"first": one, "second": other}
    assert table_of(inner) == table_of(outer)


def test_an_older_name_leads_to_the_same_function() -> None:
    jobs = Tasks()
    task = jobs.task(aliases=["ancient"])(first)
    assert table_of(jobs) == {"first": task, "ancient": task}


def test_a_set_may_be_included_twice_but_never_in_itself() -> None:
    jobs, outer = Tasks(), Tasks()
    jobs.task(first)
    outer.include(jobs)
    engine = Engine("memory:", include=[jobs, outer])
    assert set(engine._runtime.table()) == {"first"}
    with pytest.raises(ConfigError, match="itself"):
        jobs.include(outer)
    with pytest.raises(ConfigError, match=r"Tasks\(\)"):
        outer.include(first)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="list"):
        Engine("memory:", include=jobs)  # type: ignore[arg-type]


def test_the_same_function_decorated_again_is_a_module_loaded_again() -> None:
    jobs = Tasks()
    jobs.task(first)
    again = jobs.task(retries=0)(first)
    assert table_of(jobs) == {"first": again}


class Notebook:
    """Cells, each compiled under a name of its own as IPython does; what one raises is raised here."""

    def __init__(self) -> None:
        self._module = ModuleType("__main__")
        self._prompt = InteractiveInterpreter(vars(self._module))
        self._prompt.showtraceback = self._raise  # type: ignore[method-assign]
        self._number = 0

    def cell(self, *lines: str) -> None:
        self._number += 1
        self._prompt.runsource("\n".join(lines), f"<ipython-input-{self._number}>", "exec")

    def value(self, name: str) -> object:
        return vars(self._module)[name]

    def _raise(self) -> None:
        raise


@pytest.fixture
def notebook() -> Notebook:
    made = Notebook()
    made.cell("from ramify import Engine, Tasks", "engine, jobs = Engine('memory:'), Tasks()", "engine.include(jobs)")
    made.cell("@jobs.task(aliases=['older'])", "def double(n: int) -> int:", "    return n + n")
    return made


def test_a_task_that_is_defined_again_in_a_notebook_replaces_the_one_before(notebook: Notebook) -> None:
    notebook.cell("@jobs.task(aliases=['older'])", "def double(n: int) -> int:", "    return 2 * n + 1")
    notebook.cell("found = list(engine.run(double.of(3)).results())")
    assert notebook.value("found") == [7]
    engine = notebook.value("engine")
    assert isinstance(engine, Engine)
    assert set(engine._runtime.table().values()) == {notebook.value("double")}


def test_a_hook_that_is_defined_again_in_a_notebook_replaces_the_one_before(notebook: Notebook) -> None:
    notebook.cell("seen = []")
    for name in ("first", "second"):
        notebook.cell("@engine.around", "def hook():", f"    seen.append({name!r})", "    yield")
        notebook.cell("@engine.around", "def other():", "    seen.append('other')", "    yield")
    notebook.cell("engine.run(double.of(3))")
    assert notebook.value("seen") == ["second", "other"]


def test_another_function_of_that_name_is_refused_in_a_notebook_too(notebook: Notebook) -> None:
    with pytest.raises(ConfigError, match="input-2>:1 and <ipython-input-3>:1"):
        notebook.cell("@jobs.task(name='double')", "def triple(n: int) -> int:", "    return 3 * n")
    with pytest.raises(ConfigError, match="called 'older'"):
        notebook.cell("@jobs.task", "def older(n: int) -> int:", "    return n")
    with pytest.raises(ConfigError, match="called 'double'"):
        notebook.cell("@engine.task", "def double(n: int) -> int:", "    return n")
    jobs = notebook.value("jobs")
    assert isinstance(jobs, Tasks)
    with pytest.raises(ConfigError, match="called 'double'"):
        jobs.task(name="double")(first)


def test_a_file_that_is_run_must_not_define_a_task_twice(tmp_path: Path) -> None:
    file = tmp_path / "twice.py"
    cell = "@engine.task\ndef double(n: int) -> int:\n    return n + n\n"
    file.write_text(f"from ramify import Engine\nengine = Engine('memory:')\n{cell}{cell}")
    with pytest.raises(ConfigError, match=r"twice\.py:3 and .*twice\.py:6"):
        runpy.run_path(str(file), run_name="__main__")
