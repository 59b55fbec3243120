"""Distributions: what `make dist` builds is complete, and a new user who installs the wheel can follow the README.

The wheel is installed by pip, without a network, into an environment with nothing in it but Ramify's dependencies, and
theirs. They are those of this environment, so a dependency that is used and not declared is missing there.
"""

from __future__ import annotations

import configparser
import io
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from email.parser import BytesParser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import ramify
from tests.house.pages import ROOT, play
from tools.pins import closure
from tools.tree import files, name_of

#: Folders of the repository that users have no use for.
KEPT_OUT = ("bench", "docs", "examples", "tests", "tools")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make dist` fills."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def bare(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment that has the wheel, what it depends on, and nothing else."""
    place = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(place, with_pip=False, symlinks=True)
    (site,) = place.glob("lib/python3.*/site-packages")
    for needed in closure(requirements(one(dist, "*.whl"))):
        for top in tops(metadata.distribution(needed)):
            (site / top.name).symlink_to(top)
    python = str(place / "bin" / "python")
    # It would refuse to go on if something that the wheel asks for were not there.
    install = ["install", "--quiet", "--no-index", "--disable-pip-version-check", str(one(dist, "*.whl"))]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *install], check=True, timeout=120)
    return place / "bin"


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(one(dist, "*.whl")) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    ours = {name_of(ROOT / "src", path) for path in files(ROOT) if path.is_relative_to(ROOT / "src")}
    assert names == ours
    assert "ramify/py.typed" in names


def test_the_wheel_declares_its_commands_its_plug_in_and_its_licence(dist: Path) -> None:
    with zipfile.ZipFile(one(dist, "*.whl")) as wheel:
        inside = f"ramify-{ramify.__version__}.dist-info/"
        declared = configparser.ConfigParser()
        declared.read_file(io.StringIO(wheel.read(f"{inside}entry_points.txt").decode()))
        assert wheel.read(f"{inside}licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert {name: dict(declared[name]) for name in declared.sections()} == {
        "console_scripts": {"ramify": "ramify.cli.main:main"},
        "pytest11": {"ramify": "ramify.pytest_plugin"},
    }


def test_every_extra_of_the_wheel_is_for_something_that_is_built(dist: Path) -> None:
    with zipfile.ZipFile(one(dist, "*.whl")) as wheel:
        metadata_of = BytesParser().parsebytes(wheel.read(f"ramify-{ramify.__version__}.dist-info/METADATA"))
        rooms = {Path(name).parts[2].removesuffix(".py") for name in wheel.namelist() if "/contrib/" in name}
        rooms |= {Path(name).parts[2] for name in wheel.namelist() if name.startswith("ramify/store/")}
    extras = set(metadata_of.get_all("Provides-Extra", []))
    assert {"django", "prometheus"} <= extras
    assert extras - {"dev"} <= rooms


def test_the_source_distribution_is_the_project_and_builds_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(one(dist, "*.tar.gz")) as source:
        source.extractall(tmp_path, filter="data")
    unpacked = tmp_path / f"ramify-{ramify.__version__}"
    made_on_the_way = {"PKG-INFO"}
    assert {name_of(unpacked, each) for each in files(unpacked)} - made_on_the_way == {
        name_of(ROOT, each) for each in files(ROOT)
    }
    again = build(unpacked, tmp_path / "again", "-t", "wheel")
    assert one(again, "*.whl").read_bytes() == one(dist, "*.whl").read_bytes()


def test_a_bare_environment_has_the_wheel_and_nothing_of_the_repository(bare: Path, tmp_path: Path) -> None:
    asks = "import ramify, sys; print(ramify.__version__, ramify.__file__, *sys.path, sep='\\n')"
    version, file, *path = run(bare / "python", "-c", asks, cwd=tmp_path).splitlines()
    assert version == ramify.__version__
    assert Path(file).is_relative_to(bare.parent)
    assert not any(each.startswith(str(ROOT)) for each in path)
    assert run(bare / "ramify", "--version", cwd=tmp_path) == f"ramify, version {ramify.__version__}\n"
    absent = f"import importlib.util as u; print([n for n in {(*KEPT_OUT, 'pytest', 'django')} if u.find_spec(n)])"
    assert run(bare / "python", "-c", absent, cwd=tmp_path) == "[]\n"


def test_every_module_needs_no_more_than_the_wheel_declares(bare: Path, tmp_path: Path) -> None:
    everything = """
import importlib, pkgutil, ramify
for module in pkgutil.walk_packages(ramify.__path__, "ramify."):
    # Those of other projects' frameworks, which have extras, those for pytest, and a store that no URL opens yet.
    others = ("ramify.contrib.", "ramify.pytest_plugin", "ramify.testing.fix", "ramify.store.postgres")
    if not module.name.startswith(("ramify.__main__", *others)):
        importlib.import_module(module.name)
"""
    assert run(bare / "python", "-c", everything, cwd=tmp_path) == ""


def test_a_new_user_who_follows_the_readme_sees_what_it_shows(bare: Path, tmp_path: Path) -> None:
    play(ROOT / "README.md", tmp_path, bare)


def build(project: Path, folder: Path, *options: str) -> Path:
    """Build a project's distributions into a folder, as `make dist` does."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *options]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=120)
    return folder


def one(folder: Path, pattern: str) -> Path:
    """The only file of that name."""
    (found,) = folder.glob(pattern)
    return found


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command that ends well, with no variable of this process."""
    ran = subprocess.run(command, cwd=cwd, env={"LANG": "C.UTF-8"}, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def requirements(wheel: Path) -> list[str]:
    """What a wheel asks for, without extras."""
    with zipfile.ZipFile(wheel) as opened:
        (page,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        asked = BytesParser().parsebytes(opened.read(page)).get_all("Requires-Dist", [])
    needed = (Requirement(text) for text in asked)
    return [str(each) for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]


def tops(installed: metadata.Distribution) -> Iterator[Path]:
    """What a distribution has put into site-packages: packages, modules and its metadata."""
    names = {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}
    yield from (Path(str(installed.locate_file(name))) for name in sorted(names))
