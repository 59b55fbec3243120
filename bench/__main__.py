"""`python -m bench [GROUP]`: measure, and print one line a figure (`--json`) or a few lines for people.

With `--against COMMIT` the figures are those of this tree and of that commit, compared; see `against.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import against, suites
from bench.figure import Setting
from bench.scratch import machine


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure on this machine, now.")
    parser.add_argument("group", nargs="?", help="the figures of one group, such as `store`; all without it")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="one figure; may be repeated")
    parser.add_argument("--scale", type=_positive, default=1.0, metavar="SHARE", help="a share of the full size: 0.1")
    parser.add_argument(
        "--repeat", type=_turns, metavar="N", help="turns of each contender (each suite has its own number)"
    )
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="a folder on a real disk")
    parser.add_argument("--json", action="store_true", help="one JSON line a figure")
    parser.add_argument("--list", action="store_true", help="name the figures and stop")
    parser.add_argument(
        "--against", metavar="COMMIT", help="compare with that commit, measured in turns with this tree"
    )
    parser.add_argument("--pairs", type=_turns, default=against.PAIRS, metavar="N", help="turns of each tree")
    parser.add_argument(
        "--least", type=_positive, default=against.LEAST, metavar="SHARE", help="of the other commit: as good as it"
    )
    options = parser.parse_args(argv)
    if options.against is not None and options.repeat is not None:
        parser.error("--repeat: with --against each turn measures once; --pairs N says how many turns there are")
    return options


def main(argv: Sequence[str]) -> int:
    """Measure what was asked for. The exit code says whether it could be measured, not whether a bar was met.

    Against another commit it says whether every figure is as good.
    """
    options = parse(argv)
    try:
        wanted = suites.choose(options.group, options.only)
    except ValueError as wrong:
        print(wrong, file=sys.stderr)
        return 2
    if options.list:
        for name, line in suites.names().items():
            if name in wanted:
                print(f"{name:<28}{line}")
        return 0
    print(machine(options.dir), file=sys.stderr, flush=True)
    if options.against is not None:
        return _compare(options, wanted)
    complete = True
    for figure in suites.measure(Setting(options.scale, options.repeat, options.dir), wanted):
        print(figure.line() if options.json else figure.words(), flush=True)
        complete = complete and not figure.missing
    return 0 if complete else 1


def _compare(options: argparse.Namespace, wanted: frozenset[str]) -> int:
    as_good = True
    try:
        with against.sides(options.against, options.dir) as (this, other):
            known = other.figures()
            for name in (each for each in suites.names() if each in wanted):
                found: against.Pairs | against.New = against.New(name, other.name)
                if name in known:
                    found = against.compare(name, this, other, options.scale, options.pairs, options.least)
                print(found.line() if options.json else found.words(), flush=True)
                as_good = as_good and found.is_as_good
    except against.CannotCompare as why:
        print(why, file=sys.stderr)
        return 2
    return 0 if as_good else 1


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not a share of the full size, above 0 and at most 100")
    return value


def _turns(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} turns measure nothing; give 1 or more")
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
