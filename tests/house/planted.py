"""A small tree for the house rules to look at, and the words to describe what is planted in it.

It is a real folder, never a stand-in for the file system. It starts clean, so that a rule that finds something in it
found what the test planted.
"""

from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

GLOSSARY = """# Glossary

## Not used

| word | say instead |
|---|---|
| data | value |
| manager | pool |

## After

| word | meaning |
|---|---|
| task | fine |
"""

CLEAN = {
    ".gitignore": "reports/\n*.pyc\n",
    "ARCHITECTURE.md": "The map: `src/ramify/errors.py`, `errors.py`, `make check`, and `reports/` once made.\n",
    "GLOSSARY.md": GLOSSARY,
    "src/ramify/__init__.py": '"""Ramify."""\n\nfrom ramify.errors import Broken\n\n__all__ = ["Broken"]\n',
    "src/ramify/errors.py": '"""Errors."""\n\n\nclass Broken(Exception):\n    """It broke."""\n',
    "tests/test_it.py": '"""A test."""\n',
}


def tree(root: Path, planted: Mapping[str, str]) -> Path:
    """Write the clean tree below `root`, then `planted` over it."""
    for name, text in {**CLEAN, **planted}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
