"""What the README shows is what happens."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_example_runs_and_goes_on_where_it_was(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    tree = tmp_path / "tree"
    sizes = {"a/one": 3, "a/b/two": 5, "c/three": 7, "four": 11}
    for name, size in sizes.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(b"x" * size)
    assert '"/usr"' in found.group(1)
    (tmp_path / "walk.py").write_text(found.group(1).replace('"/usr"', repr(str(tree))), encoding="utf-8")
    for _ in range(2):
        ran = subprocess.run([sys.executable, "walk.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr
        assert "added=4, done=4" in ran.stdout
        assert ran.stdout.rstrip().endswith(f" {sum(sizes.values())}")


def test_the_pipeline_waits_at_its_gate_and_is_answered_as_it_says(tmp_path: Path) -> None:
    section = README.read_text(encoding="utf-8").split("\n## Pipelines\n")[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    line = re.search(r"`ramify (answer .*?)`", section, re.DOTALL)
    assert found is not None
    assert line is not None
    (tmp_path / "order.py").write_text(found.group(1), encoding="utf-8")
    waiting = subprocess.Popen([sys.executable, "order.py"], cwd=tmp_path)

    def ramify(*command: str) -> str:
        typed = [sys.executable, "-m", "ramify", "-s", "orders.db", *command]
        return subprocess.run(typed, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False).stdout

    try:
        assert any("approval" in ramify("gates") for _ in range(200)), "it never came to its gate"
        assert "is answered" in ramify(*shlex.split(line.group(1)))
        assert waiting.wait(timeout=60) == 0
    finally:
        waiting.kill()
        waiting.wait()
    assert "3 boxes shipped" in ramify("events", "order-o-17")
