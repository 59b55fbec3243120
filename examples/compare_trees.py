"""Compare two folders: `python examples/compare_trees.py [LEFT RIGHT]`; without them, two that are made up.

Two runs in step: the first walks the left folder; the second follows it through the right one, and at each folder asks
what the first found there. Both can be killed and started again, and neither holds a tree in memory. A comparison that
was finished is shown again; remove its file to compare anew.
"""

import os
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path

from ramify import Engine, Spawns, current

TEMPORARY = Path(tempfile.gettempdir())
FOLDER = "/"
engine = Engine(TEMPORARY / "ramify-compare-trees.db")


def look(top: str, folder: str) -> dict[str, str]:
    """What is in a folder: the digest of each file, and a slash for each folder."""
    return {each.name: digest(each) for each in sorted(Path(top, folder).iterdir())}


def digest(path: Path) -> str:
    if path.is_dir() and not path.is_symlink():
        return FOLDER
    content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
    return blake2b(content, digest_size=16).hexdigest()


@engine.task(key="folder")
def walk(top: str, folder: str) -> Spawns[dict[str, str]]:
    found = look(top, folder)
    yield from (walk.of(top, os.path.join(folder, name)) for name, what in found.items() if what == FOLDER)
    return found


@engine.task(key="folder")
def compare(top: str, folder: str) -> Spawns[list[str]]:
    left, right = current().leader.get(folder), look(top, folder)
    both = left.keys() & right.keys()
    yield from (compare.of(top, os.path.join(folder, name)) for name in both if left[name] == right[name] == FOLDER)
    sides = {"different": {name for name in both if left[name] != right[name]}}
    sides |= {"only-left": left.keys() - both, "only-right": right.keys() - both}
    return [f"{side:10}  {os.path.join(folder, name)}" for side, names in sides.items() for name in sorted(names)]


if __name__ == "__main__":
    left, right = map(os.path.abspath, sys.argv[1:] or (f"{TEMPORARY}/ramify-left", f"{TEMPORARY}/ramify-right"))
    if not sys.argv[1:]:
        for path in (f"{left}/a/old", f"{left}/b/same", f"{right}/b/same", f"{left}/b/it", f"{right}/b/it"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(path).write_text("same" if path.endswith("same") else path)
    ahead = engine.start(walk.of(left, "."), name=f"{left}, to be compared with {right}")
    run = engine.run(compare.of(right, "."), name=f"{left} and {right}", follows=(ahead, 1))
    print(*(line for folder in run.results(compare) for line in folder), sep="\n")
