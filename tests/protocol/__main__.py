"""`python -m tests.protocol` prints the table of all cases; with names, those cases and their shortest counterexamples.

A name may be a whole model (`seal`) or one case (`seal/two-tables`). The table leaves the large cases out unless
`--full` is given. The exit code is 1 when a case came out otherwise than expected.
"""

from __future__ import annotations

import argparse
import sys

from tests.protocol.catalogue import CASES
from tests.protocol.checker import Case, Verdict, explore


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.protocol", description=__doc__)
    parser.add_argument("names", nargs="*", help="a model or a case")
    parser.add_argument("--full", action="store_true", help="also the large cases")
    asked = parser.parse_args()
    chosen = [case for case in CASES if wanted(case, asked.names, asked.full)]
    if not chosen:
        parser.error(f"no such case; there are: {', '.join(case.name for case in CASES)}")
    surprises = 0
    for case in chosen:
        verdict = explore(case.make())
        surprises += verdict.breaks != case.breaks
        print(line(case, verdict), flush=True)
        if asked.names:
            print(story(case, verdict))
    print(f"{len(chosen)} cases, {surprises} not as expected")
    return 1 if surprises else 0


def wanted(case: Case, names: list[str], full: bool) -> bool:
    if names:
        return any(name in (case.name, case.name.split("/")[0]) for name in names)
    return full or not case.full


def line(case: Case, verdict: Verdict) -> str:
    expected = "as expected" if verdict.breaks == case.breaks else f"EXPECTED {case.breaks or 'ok'}"
    outcome = f"{verdict.kind} {verdict.breaks}" if verdict.breaks else "ok"
    return (
        f"{case.name:40} {outcome:12} {len(verdict.trace):>3} steps {verdict.states:>9,} states"
        f" {verdict.edges:>10,} edges {verdict.seconds:6.1f} s  {expected}"
    )


def story(case: Case, verdict: Verdict) -> str:
    steps = [f"  {n:2}. {step}" for n, step in enumerate(verdict.trace, 1)]
    return "\n".join([f"  {case.why}", *([f"  {verdict.reason}"] if verdict.reason else []), *steps])


if __name__ == "__main__":
    sys.exit(main())
