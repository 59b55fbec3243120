"""The size of every folder below one, with everything in it: `python examples/folder_sizes.py [FOLDER]`.

Without a folder, that of Ramify itself. Each folder is a task. One with folders in it forks: they are measured first,
and then `add_up` adds what they came to. Kill it at any moment and start it again: it goes on where it was. Started
after it has finished, it measures anew.
"""

import os
import sys
import tempfile
from pathlib import Path

import ramify
from ramify import Engine, Stream, current

engine = Engine(Path(tempfile.gettempdir()) / "ramify-folder-sizes.db")

Size = tuple[str, int]


@engine.task(retries=2, give_up_on=PermissionError)
def measure(folder: str) -> Size | None:
    own, inside = 0, []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                inside.append(entry.path)
            else:
                own += entry.stat(follow_symlinks=False).st_size
    if not inside:
        return folder, own
    # Whoever waits for this task waits for its continuation instead, so sizes travel up to the top.
    current().spawn(*map(measure.of, inside), then=add_up.of(folder, own).always())
    return None


@engine.task
def add_up(folder: str, own: int, sizes: Stream[Size] = Stream()) -> Size:
    return folder, own + sum(size for _, size in sizes)


def main() -> None:
    top = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(ramify.__file__))
    run = engine.run(measure.of(top), name=f"sizes of {top}", again=True)
    found = [size for size in run.results(partial=True) if size is not None]
    for folder, size in sorted(found, key=lambda each: -each[1])[:10]:
        print(f"{size / 1e6:9.1f} MB  {folder}")
    for error in run.errors():
        print(f"not measured: {error}")
    print(f"{len(found)} folders; {run.begun.value if run.begun else ''} run")


if __name__ == "__main__":
    main()
