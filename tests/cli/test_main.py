"""The command itself, as a process: help, codes, and a real terminal."""

import os
import pty
import re
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ramify.cli.main import COMMANDS, main
from ramify.model.decision import Said
from ramify.model.run import RunState
from tests.cli.conftest import Desk

RAMIFY = [sys.executable, "-m", "ramify"]
#: What our own display may send: colours and movements of the cursor. No titles, no other strings.
OURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_the_list_in_the_help_is_what_there_is() -> None:
    folder = Path(import_module("ramify.cli.commands").__file__ or "").parent
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(COMMANDS)
    for name in COMMANDS:
        command = getattr(import_module(f"ramify.cli.commands.{name}"), name)
        assert isinstance(command, click.Command)
        assert command.name == name
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0


def test_every_command_that_tells_something_offers_json() -> None:
    for name in COMMANDS:
        if name in ("demo", "worker"):
            continue
        command = getattr(import_module(f"ramify.cli.commands.{name}"), name)
        assert "--json" in {option for parameter in command.params for option in parameter.opts}, name


@pytest.mark.alone
def test_help_comes_at_once() -> None:
    """In time of the processor, and the best of a few: other work on the machine is not the command's fault."""
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*RAMIFY, "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 0.3, seconds


def test_plain_commands_do_not_load_what_they_do_not_need(desk: Desk) -> None:
    program = "import sys; from ramify.cli.main import main; main(['status'], standalone_mode=False)"
    check = "; assert not {'rich', 'asyncio', 'ramify.engine'} & set(sys.modules), sorted(sys.modules)"
    subprocess.run([sys.executable, "-c", program + check], check=True, capture_output=True)


def test_a_process_ends_with_the_code(desk: Desk) -> None:
    def code(*args: str) -> int:
        return subprocess.run([*RAMIFY, *args], capture_output=True, check=False).returncode

    run = desk.house.run(desk.house.tasks(), name="walk")
    desk.house.store.cancel(run)
    assert desk.house.store.reads.run(run).state is RunState.CANCELLED
    assert code("status", "walk") == 0
    assert code("status", "walk", "--watch") == 1
    assert code("status", "nope") == 2
    assert code("stauts") == 2
    assert code("status", "-s", "gone.db") == 3


def test_an_interrupt_ends_with_130(desk: Desk) -> None:
    desk.house.run(desk.house.tasks(), name="walk")
    watching = subprocess.Popen([*RAMIFY, "status", "-w"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    assert watching.stdout.readline().startswith("walk · open")
    watching.send_signal(2)
    _, said = watching.communicate(timeout=30)
    assert (watching.returncode, said.splitlines()[-1]) == (130, "interrupted")


def test_a_reader_that_goes_away_is_no_trouble(desk: Desk) -> None:
    desk.house.run(desk.house.tasks(5000), name="walk")
    shell = f"{sys.executable} -m ramify tasks walk -n 5000 | head -1"
    found = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        ("| head -1 > /dev/null; exit ${PIPESTATUS[0]}", 141, ""),
        (">&-", 3, "ramify: standard output is closed. Run the command with it open."),
        ("> /dev/full", 3, "ramify: the answer could not be written (No space left on device)"),
        (">&- 2>&-", 3, ""),
    ],
    ids=["reader gone", "closed", "full", "both closed"],
)
@pytest.mark.parametrize("how", ["", "--json"])
def test_an_output_that_cannot_be_written_ends_in_one_line_and_a_code(
    desk: Desk, end: str, code: int, words: str, how: str
) -> None:
    desk.house.run(desk.house.tasks(5000), name="walk")
    shell = f"{sys.executable} -m ramify -s walk.db tasks walk -n 5000 {how} {end}"
    found = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr.strip()) == (code, words)


HUGE = "9" * 30


@pytest.mark.parametrize(
    "line",
    [
        f"why {HUGE}", f"events {HUGE}", f"events walk --after {HUGE}", f"events walk -n {HUGE}",
        f"tasks --after {HUGE}", f"cancel walk {HUGE}", f"resolve {HUGE} --skip", f"retry walk {HUGE}",
        f"logs walk --task {HUGE}", f"logs walk --after {HUGE}", f"runs -n {HUGE}", f"status {HUGE}", "why abc",
        "why -- -5", "resolve 3", "stauts", f"run p.py:engine work --processes={HUGE}",
        f"run p.py:engine work --threads={HUGE}", f"run p.py:engine work --max-tasks={HUGE}",
        f"worker p.py:engine --processes={HUGE}",
    ],
)  # fmt: skip
def test_what_names_nothing_ends_in_one_line_and_with_two(desk: Desk, line: str) -> None:
    desk.house.run(desk.house.tasks(3), name="walk")
    found = desk.type("-s", "walk.db", *line.split(), code=2)
    assert found.stdout == ""
    (said,) = found.stderr.splitlines()
    assert said.startswith("ramify: ")


def on_a_terminal(*args: str, **environment: str) -> str:
    """What a command sends to a terminal of its own."""
    ours, theirs = pty.openpty()
    given = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "60", **environment}
    process = subprocess.Popen([*RAMIFY, *args], stdout=theirs, stderr=subprocess.DEVNULL, stdin=theirs, env=given)
    os.close(theirs)
    sent = b""
    while True:
        try:
            some = os.read(ours, 65_536)
        except OSError:
            break
        if not some:
            break
        sent += some
    os.close(ours)
    process.wait(timeout=30)
    return sent.decode()


@pytest.mark.parametrize("args", [["runs"], ["status"], ["status", "--watch"], ["tasks", "#"], ["errors", "#"]])
def test_on_a_real_terminal_only_our_own_escapes_are_sent(desk: Desk, args: list[str]) -> None:
    name = "w\x1b]0;owned\x07\x9b2J\u202e[red]x"
    run = desk.house.run(desk.house.tasks([b'["\\u001b[2J\\u202e"]'], kind=name), name=name)
    desk.house.store.cancel(run, said=Said(name))
    sent = on_a_terminal(*(arg.replace("#", str(run)) for arg in args))
    rest = OURS.sub("", sent).replace("\r", "")
    assert re.fullmatch(r"[\x20-\x7e\n\u00a0-\u200a\u2010-\u2027\u2030-\u205f]*", rest), ascii(rest)
    assert "\\x1b" in rest or args[0] == "errors"


def test_colours_are_for_terminals_that_want_them(desk: Desk) -> None:
    desk.house.run(desk.house.tasks(), name="walk")
    assert "\x1b[1mwalk" in on_a_terminal("runs")
    assert "\x1b" not in on_a_terminal("runs", NO_COLOR="1")
    assert "\x1b" not in desk.out("runs")


def test_a_line_that_is_too_long_is_cut_at_the_edge_of_the_terminal(desk: Desk) -> None:
    desk.house.run(desk.house.tasks([b'["' + b"x" * 500 + b'"]']), name="walk")
    lines = OURS.sub("", on_a_terminal("tasks", "walk")).splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[-1].endswith("…")
    assert "x" * 500 in desk.out("tasks", "walk")


def test_a_terminal_of_another_encoding_gets_escapes(desk: Desk) -> None:
    desk.house.run(desk.house.tasks(['["größe日"]'.encode()]), name="walk")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    found = subprocess.run([*RAMIFY, "tasks", "walk"], env=environment, capture_output=True, check=True)
    assert b"gr\\xf6\\xdfe\\u65e5" in found.stdout
