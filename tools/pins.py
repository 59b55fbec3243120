"""The rule of pins: `constraints.txt` fixes one version of everything that `make .venv` installs.

It starts from what `pyproject.toml` asks for (the project, the `dev` extra, the build tools) and follows what each
installed distribution asks for in turn. Nothing is downloaded and nothing else in the environment is looked at, so a
developer's own extra tools do no harm.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.tree import Finding

PAGE = "constraints.txt"

# Asked for by hatchling only while it builds an editable install, so no metadata names it.
EDITABLE_BUILD = ("editables",)

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+]*)")


def pins(root: Path) -> Iterator[Finding]:
    """Every line is `name==version`, once each, in order, and nothing that is installed is missing."""
    names: list[str] = []
    for number, line in enumerate((root / PAGE).read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _PIN.fullmatch(line)
        if match is None:
            yield Finding(PAGE, number, f"{line!r} is not name==version (no hashes, addresses, ranges or options)")
            continue
        names.append(canonicalize_name(match.group(1)))
        if sorted(set(names)) != names:
            yield Finding(PAGE, number, f"{line!r} is out of order or twice")
    for name in sorted(closure(_installed(root)) - set(names)):
        yield Finding(PAGE, 1, f"{name} is installed by make .venv and not pinned")


def closure(asked: Iterable[str]) -> set[str]:
    """The names of the distributions that requirements ask for, and of those that these ask for in turn."""
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(text) for text in asked]
    while waiting:
        requirement = waiting.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key not in seen:
            seen.add(key)
            waiting.extend(_asked_by(requirement))
    return {name for name, _ in seen}


def _installed(root: Path) -> list[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return [
        *project["build-system"]["requires"],
        *EDITABLE_BUILD,
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["dev"],
    ]


def _asked_by(requirement: Requirement) -> Iterator[Requirement]:
    try:
        texts = metadata.requires(requirement.name) or []
    except metadata.PackageNotFoundError:
        return
    for text in texts:
        further = Requirement(text)
        extras = requirement.extras or {""}
        if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras):
            yield further
