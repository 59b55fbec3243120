"""Which programs would be started again by their own workers, which import them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ramify.errors import ConfigError

PROGRAM = """
import logging
from ramify.engine.processes.importing import check_guarded

def start() -> None:
    check_guarded({module!r})

"""


@pytest.mark.parametrize(
    "line",
    [
        'if __name__ == "__main__":\n    start()',
        'if __name__ != "__main__":\n    pass\nelse:\n    start()',
        'try:\n    if __name__ == "__main__":\n        start()\nfinally:\n    pass',
        '__name__ == "__main__" and start()',
        'start() if "__main__" == __name__ else None',
    ],
)
def test_a_start_for_the_main_program_alone_is_let_through_however_it_is_written(line: str, tmp_path: Path) -> None:
    file = tmp_path / "guarded.py"
    file.write_text(PROGRAM.format(module=str(file)) + line)
    runpy.run_path(str(file), run_name="__main__")


@pytest.mark.parametrize("line", ["start()", "if True:\n    logging.getLogger(__name__)\n    start()"])
@pytest.mark.parametrize("by_name", [False, True])
def test_a_start_for_everybody_who_imports_the_program_is_refused(
    line: str, by_name: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "unguarded_here.py"
    file.write_text(PROGRAM.format(module="unguarded_here" if by_name else str(file)) + line)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=f"of {file} starts worker processes"):
        # As `python -m unguarded_here` and `python unguarded_here.py` do.
        (runpy.run_module if by_name else runpy.run_path)(file.stem if by_name else str(file), run_name="__main__")


def test_a_program_that_its_workers_do_not_import_may_start_anywhere(tmp_path: Path) -> None:
    file = tmp_path / "plain.py"
    file.write_text(PROGRAM.format(module="shop.tasks") + "start()")
    runpy.run_path(str(file), run_name="__main__")
