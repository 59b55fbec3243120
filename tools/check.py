"""`make check`, the part that no other tool does: runs every house rule and prints what breaks it.

Each rule is a function from the root of a tree to findings; `tests/house` plants a violation of each and sees it found.
Adding a rule is adding it to `RULES`. There are no exceptions and no way to silence one line.
"""

import sys
from pathlib import Path

from tools.exports import public_exports
from tools.mutants import registry_matches
from tools.pins import pins
from tools.prose import headless_docstrings, headless_public_docstrings, headless_sentences
from tools.text_rules import (
    environment_reads,
    machine_addresses,
    module_docstrings,
    module_sizes,
    paths_in_the_map,
    sleeps_in_tests,
    types_given_to_msgspec,
)
from tools.tree import Rule
from tools.words import banned_names, class_names, glossary_words

RULES: tuple[Rule, ...] = (
    module_sizes,
    module_docstrings,
    paths_in_the_map,
    public_exports,
    machine_addresses,
    sleeps_in_tests,
    environment_reads,
    types_given_to_msgspec,
    banned_names,
    class_names,
    glossary_words,
    headless_docstrings,
    headless_public_docstrings,
    headless_sentences,
    pins,
    registry_matches,
)


def main(root: Path) -> int:
    """Run every rule, print each finding, and answer 1 if there is any."""
    broken = 0
    for rule in RULES:
        findings = sorted(rule(root))
        broken += len(findings)
        print(f"{'ok ' if not findings else 'BAD'} {rule.__name__.replace('_', ' ')}")
        for finding in findings:
            print(f"    {finding}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
