"""What the README shows is what happens."""

import re
import runpy
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_example_runs_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    Path("tour.py").write_text(found.group(1), encoding="utf-8")
    for done in (1, 2, 3):
        runpy.run_path("tour.py")
        assert f"{{'greet': {{0: {done + 1}, 1: {done}}}}}" in capsys.readouterr().out
