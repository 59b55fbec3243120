"""Decoders of classes that threads ask for at the same time."""

import subprocess
import sys

import pytest

#: Threads work out and decode one new class after the other, all at the same moment. Prints how many there were.
PROGRAM = """
import sys, threading
import msgspec
from ramify.model.decoder import converter, decoder

sys.setswitchinterval(1e-6)
together = threading.Barrier(4)

def classes():
    for _ in range(400):
        inner = msgspec.defstruct("Inner", [(name, "int | None", None) for name in "abcdefgh"])
        yield msgspec.defstruct("Outer", [(name, inner | None, None) for name in "abcdefgh"])

def go():
    for kind in made:
        together.wait()
        {one_of_them}

made = list(classes())
threads = [threading.Thread(target=go) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(made))
"""


@pytest.mark.parametrize(
    "one_of_them",
    ["""decoder(kind).decode(b'{"h":{"h":1}}')""", "converter(kind)({'h': {'h': 1}})"],
    ids=["decoder", "converter"],
)
def test_threads_that_meet_a_class_for_the_first_time_at_once_all_decode_it(one_of_them: str) -> None:
    program = PROGRAM.replace("{one_of_them}", one_of_them)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "400\n", "")
