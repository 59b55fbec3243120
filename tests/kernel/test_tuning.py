"""Numbers that were chosen are in one place, each with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ramify.engine
import ramify.kernel
from ramify.kernel import tuning

KERNEL = Path(ramify.kernel.__file__).parent
COORDINATION = KERNEL.parent / "coordination"
ENGINE = Path(ramify.engine.__file__).parent
#: Not tuned: an exit code that others know, and what people may ask for at most.
FIXED = {"REPLACE_ME", "MOST_PROCESSES", "MOST_THREADS", "GRACE"}


def numbers_of(path: Path) -> Iterator[tuple[str, int]]:
    """Public names of a module that stand for numbers, with their lines."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Tuple):
            (target,) = node.targets
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if all(isinstance(value, ast.Constant) and isinstance(value.value, int | float) for value in values):
                yield from (
                    (name.id, node.lineno) for name in names if isinstance(name, ast.Name) and name.id[0] != "_"
                )


def test_no_other_room_of_the_kernel_has_a_number_of_its_own() -> None:
    """Nor has the one in which people wait for what kernels do."""
    rooms = [path for path in KERNEL.rglob("*.py") if path.stem != "tuning"] + [ENGINE / "runs/waiting.py"]
    elsewhere = {path.name: dict(numbers_of(path)) for path in rooms}
    assert {name for names in elsewhere.values() for name in names} == FIXED


def test_every_number_has_its_reason_and_is_used() -> None:
    path = Path(tuning.__file__)
    lines = path.read_text().splitlines()
    users = (*KERNEL.rglob("*.py"), *ENGINE.rglob("*.py"), *COORDINATION.rglob("*.py"))
    others = "\n".join(each.read_text() for each in users if each != path)
    numbers = dict(numbers_of(path))
    assert len(numbers) > 40
    assert [name for name, line in numbers.items() if not lines[line - 2].startswith("#: ")] == []
    assert [name for name in numbers if name not in others] == []
