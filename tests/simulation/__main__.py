"""Tell the story of one seed: `python -m tests.simulation SEED [-q]`. Ends with what went wrong, if anything did."""

from __future__ import annotations

import sys

from tests.simulation.watch import Violation
from tests.simulation.world import World


def main(arguments: list[str]) -> int:
    """Live through the seeds named, aloud unless -q is given."""
    quiet = "-q" in arguments
    code = 0
    for seed in (int(each) for each in arguments if each != "-q"):
        try:
            World(seed, None if quiet else print).live()
        except Violation as violation:
            print(f"seed {seed}: {violation}")
            code = 1
        else:
            print(f"seed {seed}: every promise was kept")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
