"""Each house rule is quiet on a clean tree and finds what is planted. A rule without a planted violation fails here."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.planted import CLEAN, GLOSSARY, REPOSITORY, tree
from tools import check
from tools.exports import public_exports
from tools.mutants import registry_matches
from tools.pins import pins
from tools.prose import headless_docstrings, headless_public_docstrings, headless_sentences
from tools.text_rules import (
    LARGEST_MODULE,
    environment_reads,
    machine_addresses,
    module_docstrings,
    module_sizes,
    paths_in_the_map,
    sleeps_in_tests,
    types_given_to_msgspec,
)
from tools.tree import Rule, files, name_of
from tools.words import banned_names, banned_words, class_names, glossary_words

PACKAGE = "src/ramify/room/__init__.py"
MODULE = "src/ramify/room/part.py"


@dataclass(frozen=True)
class Planted:
    """One violation: the rule that must find it, the file that holds it, and words the finding must contain."""

    title: str
    rule: Rule
    file: str
    text: str
    says: str
    beside: tuple[str, str] | None = None


# Spelled in two halves, so that this file does not break the rules it tests.
PLANTED = [
    Planted(
        "a module of one line too many",
        module_sizes,
        MODULE,
        "x = 1\n" * (LARGEST_MODULE + 1),
        f"{LARGEST_MODULE + 1} lines",
    ),
    Planted("a module without a docstring", module_docstrings, MODULE, "x = 1\n", "no module docstring"),
    Planted("a path that is not there", paths_in_the_map, "ARCHITECTURE.md", "see\n`src/gone.py`", "`src/gone.py`"),
    Planted("a file name that is not there", paths_in_the_map, "ARCHITECTURE.md", "`gone.py`", "`gone.py`"),
    Planted("a folder that is not there", paths_in_the_map, "ARCHITECTURE.md", "`src/ramify/gone/`", "gone/"),
    Planted(
        "a public name that is not listed",
        public_exports,
        PACKAGE,
        '__all__ = []\n\ndef go():\n    "x"\n',
        "go is public",
    ),
    Planted("a package without a list", public_exports, PACKAGE, "from ramify.errors import Broken\n", "no __all__"),
    Planted("a listed name that is not there", public_exports, PACKAGE, '__all__ = ["gone"]\n', "names gone"),
    Planted("a name listed twice", public_exports, PACKAGE, 'def go():\n    "x"\n__all__ = ["go", "go"]\n', "twice"),
    Planted("a list that is computed", public_exports, PACKAGE, "__all__ = dir()\n", "not a plain list"),
    Planted(
        "an undocumented function",
        public_exports,
        PACKAGE,
        '__all__ = ["go"]\ndef go(): ...\n',
        "go is exported without",
    ),
    Planted(
        "an undocumented class behind an import",
        public_exports,
        PACKAGE,
        'from .part import Thing\n__all__ = ["Thing"]\n',
        "Thing is exported without",
        (MODULE, "class Thing: ...\n"),
    ),
    Planted(
        "an undocumented constant",
        public_exports,
        PACKAGE,
        'from ramify.room.part import LIMIT\n__all__ = ["LIMIT"]\n',
        "LIMIT is exported without",
        (MODULE, "import os\n\nLIMIT = 3\n"),
    ),
    Planted(
        "an undocumented class behind a star",
        public_exports,
        PACKAGE,
        "from ramify.room.part import *\n__all__ = []\n",
        "Thing is exported without",
        (MODULE, "import os\n\nclass Thing: ...\nclass _Own: ...\n"),
    ),
    Planted(
        "a public name beside a star",
        public_exports,
        PACKAGE,
        'from ramify.room.part import *\n__all__ = []\ndef go():\n    "x"\n',
        "go is public",
        (MODULE, 'class Thing:\n    "x"\n'),
    ),
    Planted("a home folder", machine_addresses, "notes.md", "in /" + "home/ann/x", "one machine"),
    Planted("the home of root", machine_addresses, "notes.md", "`/" + "root/x`", "one machine"),
    Planted("a work folder", machine_addresses, ".ci/run", "cd /" + "work\n", "one machine"),
    Planted("a registry", machine_addresses, "pyproject.toml", "https://files.python" + "hosted.org/x", "registry"),
    Planted("an index", machine_addresses, "constraints.txt", "https://host/" + "simple/", "registry"),
    Planted("an index option", machine_addresses, "constraints.txt", "--index" + "-url x\n", "index option"),
    Planted("a sleep", sleeps_in_tests, "tests/test_it.py", "\ntime" + ".sleep(1)\n", ":2: a sleep"),
    Planted(
        "a sleep by another name",
        sleeps_in_tests,
        "tests/a/b.py",
        "from " + "time import monotonic, sleep\n",
        "a sleep",
    ),
    Planted("a read of the environment", environment_reads, MODULE, "import os\nos.environ['A']\n", ":2: os.environ"),
    Planted("an import of the environment", environment_reads, MODULE, "from os import getenv\n", "from os import"),
    Planted(
        "a type given to msgspec",
        types_given_to_msgspec,
        MODULE,
        "import msgspec\nmsgspec.json.decode(b'1', type=int)\n",
        ":2: decode(type=...)",
    ),
    Planted(
        "a decoder of its own",
        types_given_to_msgspec,
        MODULE,
        "import msgspec\nmsgspec.json.Decoder(int)\n",
        ":2: Decoder",
    ),
    Planted(
        "a conversion by msgspec",
        types_given_to_msgspec,
        MODULE,
        "import msgspec\nmsgspec.convert(1, int)\n",
        ":2: msgspec",
    ),
    Planted("a banned function", banned_names, MODULE, "def load_data(): ...\n", "load_data"),
    Planted("a banned class in the plural", banned_names, MODULE, "class TaskManagers: ...\n", "'manager'"),
    Planted("a banned argument", banned_names, MODULE, "def f(data): ...\n", "'data'"),
    Planted("a banned attribute", banned_names, MODULE, "def f(self):\n    self.data = 1\n", ":2: data"),
    Planted("a banned variable", banned_names, MODULE, "for data in (): ...\n", "'data'"),
    Planted("a banned alias", banned_names, MODULE, "import os as data\n", "'data'"),
    Planted("a banned module", banned_names, "src/ramify/manager.py", "", "'manager'"),
    Planted(
        "a class name that exists already",
        class_names,
        MODULE,
        "class Task: ...\n",
        "src/ramify/another.py:1",
        ("src/ramify/another.py", "class Task: ...\n"),
    ),
    Planted(
        "a glossary word of no code",
        glossary_words,
        "GLOSSARY.md",
        "| **tail row** | x |\n",
        "'tail row' occurs nowhere",
    ),
    Planted(
        "a glossary word with two meanings",
        glossary_words,
        "GLOSSARY.md",
        "**broken**\n\n**broken**\n",
        ":3: 'broken' is defined",
    ),
    Planted("a headless docstring", headless_docstrings, MODULE, 'def _f():\n    """Whether it is."""\n', ":2: opens"),
    Planted(
        "a headless docstring too many",
        headless_docstrings,
        "tools/prose.toml",
        "headless_docstrings = 1\n",
        "2, more than 1",
        (MODULE, '"""What it is."""\ndef _f():\n    """That the end has come."""\n'),
    ),
    Planted(
        "a number that was not lowered",
        headless_docstrings,
        "tools/prose.toml",
        "headless_docstrings = 2\n",
        "1, fewer than 2",
        (MODULE, '"""Whoever reads this."""\n'),
    ),
    Planted(
        "a headless method of a public class",
        headless_public_docstrings,
        "src/ramify/room/part.py",
        'class Run:\n    """A run."""\n    def go(self):\n        """What it does."""\n',
        ":4: public",
        ("src/ramify/__init__.py", "from ramify.room.part import Run\n"),
    ),
    Planted(
        "a headless method of a base of a public class",
        headless_public_docstrings,
        "src/ramify/room/part.py",
        'class Verbs:\n    def go(self):\n        """Those that go."""\n\nclass Run(Verbs):\n    """A run."""\n',
        ":3: public",
        ("src/ramify/__init__.py", "from ramify.room.part import Run\n"),
    ),
    Planted(
        "a headless command",
        headless_public_docstrings,
        "src/ramify/cli/commands/why.py",
        'def why():\n    """Of a task: why."""\n',
        ":2: public",
    ),
    Planted(
        "a headless option",
        headless_public_docstrings,
        "src/ramify/cli/visit.py",
        '"""Visits."""\nBY = option("--by", help="Who decides.")\n',
        ":2: a help",
    ),
    Planted("a headless sentence", headless_sentences, "README.md", "# What\n\nIt is.\nWhat is\nit.\n", ":4: opens"),
    Planted("a headless item", headless_sentences, "docs/a.md", "What?\n- *Those* that wait.\n", ":2: opens"),
    Planted("a headless cell", headless_sentences, "docs/a.md", "| Who |\n|---|\n| x. Of a run |\n", ":3: opens"),
    Planted(
        "a number of sentences that was not lowered",
        headless_sentences,
        "tools/prose.toml",
        "headless_sentences = 1\n",
        "0, fewer than 1",
    ),
    Planted("a banned package", banned_names, "src/ramify/data/__init__.py", "", "'data'"),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.title)
def test_a_rule_finds_what_is_planted(planted: Planted, tmp_path: Path) -> None:
    beside = dict([planted.beside]) if planted.beside else {}
    root = tree(tmp_path, {planted.file: planted.text, **beside})
    found = [str(finding) for finding in planted.rule(root)]
    assert len(found) == 1
    assert found[0].startswith(planted.file)
    assert planted.says in found[0]


def test_every_rule_has_a_planted_violation() -> None:
    tested_elsewhere = {pins, registry_matches}
    assert {planted.rule for planted in PLANTED} | tested_elsewhere == set(check.RULES)


QUIET = {
    "a map with code, addresses and globs": ("ARCHITECTURE.md", "`a / b` `x.y()` `sqlite:///x` `src/*.py` `and`\n"),
    "a map with a drawing": ("ARCHITECTURE.md", "```\nsrc/gone.py `src/gone.py`\n```\n"),
    "a path inside another": ("notes.md", "tree/" + "root and http://host/" + "work/ and ~/" + "root\n"),
    "an ignored file": ("reports/tests.json", "/" + "root/x"),
    "a call of a method with a banned name": (MODULE, '"""Part."""\nx = {}.data()\n'),
    "words of the glossary in names and text": ("GLOSSARY.md", GLOSSARY + "\n**errors**, **broke**, **limit**\n"),
    "a page with questions, headings and code": (
        "docs/page.md",
        "# What is this\n\n## Who may\n\nWhat happens then? Nothing.\n\n    Whether it does\n\n"
        "```python\nWhat = 1\n```\n\n| What | Who |\n|---|---|\n| `What` | that |\n\nIf so.\nThose days are over?\n",
    ),
    "a word that contains a banned one": (MODULE, '"""Part."""\nmetadata = database = 1\n'),
    "a special method": (MODULE, '"""Part."""\n\n\nclass A:\n    def __data__(self) -> None: ...\n'),
    "a documented constant": (
        PACKAGE,
        '"""Room."""\n\nfrom ramify.room.limits import LIMIT, MOST\n\n__all__ = ["LIMIT", "MOST"]\n',
    ),
    "a package that lists some of what a star brings": (
        PACKAGE,
        '"""Room."""\n\nfrom ramify.room.limits import *\n\n__all__ = ["LIMIT"]\n',
    ),
    "a package that uses what it imports": (
        PACKAGE,
        '"""Room."""\n\nfrom ramify.errors import Broken\n\n__all__ = ["go"]\n\n\n'
        'def go() -> None:\n    """Go."""\n    raise Broken\n',
    ),
    "a package that exports a module": (PACKAGE, '"""Room."""\n\n__all__ = ["limits"]\n'),
    "a package with nothing public": (PACKAGE, '"""Room."""\n\nimport os\n\n_x = os.sep\n'),
    "the module that may read the environment": (
        "src/ramify/cli/config.py",
        '"""Configuration."""\n\nimport os\n\nURL = os.environ["RAMIFY_URL"]\n',
    ),
}
LIMITS = '"""Limits."""\n\n#: The limit.\nLIMIT = 3\nMOST = 4\n"""The most."""\n'


@pytest.mark.parametrize("case", QUIET)
def test_no_rule_finds_anything_in(case: str, tmp_path: Path) -> None:
    name, text = QUIET[case]
    root = tree(tmp_path, {"src/ramify/room/limits.py": LIMITS, name: text})
    rules = [rule for rule in check.RULES if rule not in (pins, registry_matches)]
    assert [str(finding) for rule in rules for finding in rule(root)] == []


def test_a_file_that_is_not_text_is_passed_over(tmp_path: Path) -> None:
    root = tree(tmp_path, {})
    (root / "picture.png").write_bytes(b"\xff/" + b"root/")
    assert list(machine_addresses(root)) == []


def test_a_missing_map_is_found(tmp_path: Path) -> None:
    root = tree(tmp_path, {})
    (root / "ARCHITECTURE.md").unlink()
    assert [finding.text for finding in paths_in_the_map(root)] == ["missing: the map of the house"]


def test_a_glossary_without_banned_words_is_an_error(tmp_path: Path) -> None:
    root = tree(tmp_path, {"GLOSSARY.md": "# Glossary\n"})
    with pytest.raises(ValueError, match="Not used"):
        banned_words(root)


def test_the_banned_words_are_those_under_not_used_and_no_others(tmp_path: Path) -> None:
    assert banned_words(tree(tmp_path, {})) == {"data", "manager"}


def test_our_own_glossary_bans_the_words_it_says_it_bans() -> None:
    words = {"manager", "helper", "util", "base", "message", "execution", "data", "info"}
    assert banned_words(REPOSITORY) == words


def test_files_leave_out_what_git_ignores_and_git_itself(tmp_path: Path) -> None:
    root = tree(tmp_path, {"reports/a.json": "", "src/x.pyc": "", ".git/config": "", "src/reports/b": ""})
    assert {name_of(root, path) for path in files(root)} == set(CLEAN)


def test_a_gitignore_that_the_rules_cannot_read_is_an_error(tmp_path: Path) -> None:
    root = tree(tmp_path, {".gitignore": "src/generated/\n"})
    with pytest.raises(ValueError, match=r"src/generated"):
        list(files(root))


def test_the_check_prints_the_finding_and_answers_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "RULES", (module_docstrings, module_sizes))
    root = tree(tmp_path, {MODULE: "x = 1\n"})
    assert check.main(root) == 1
    assert capsys.readouterr().out.splitlines() == [
        "BAD module docstrings",
        f"    {MODULE}:1: no module docstring: say what this room is for",
        "ok  module sizes",
    ]


def test_the_check_answers_zero_on_a_clean_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "RULES", (module_docstrings, module_sizes))
    assert check.main(tree(tmp_path, {})) == 0
