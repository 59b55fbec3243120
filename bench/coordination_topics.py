"""Topics: what it costs a task to publish, and how soon a follower has what is published.

`coordination/topic-publish`  50,000 publications of 100 tasks, against as many children of 100 tasks, which do nothing.
                              Both in processor time, in the calling thread, each value a short text with a key
`coordination/topic-latency`  from just before `publish` in a program until a follower in another process has the value;
                              beside it, a follower in a thread of the same process. It holds the commit

Nobody else reads the topic. The first publication, which opens the session of the program, is off the clock.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from bench.contest import Contender, Rates, hold, say
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_latency import percentile
from bench.frontier_turn import environment
from bench.scratch import KEEPS, folder_in
from ramify import Engine, Spawns

PUBLISH, LATENCY = "coordination/topic-publish", "coordination/topic-latency"
COUNT, TASKS, SAMPLES, REPEAT = 50_000, 100, 200, 5
MOST, MOST_MS = 1.5, 10
OURS, CHILDREN = "publications", "children"
PAUSE = (0.02, 0.1)
SEED = 7

engine = Engine("bench.db")
words = engine.topic("words", str)


@engine.task
def word(text: str) -> None:
    """Nothing at all."""


@engine.task
def tell(first: int, many: int) -> None:
    """Publish so many words."""
    for number in range(first, first + many):
        words.publish(f"word {number}", key=f"{number}")


@engine.task
def grow(first: int, many: int) -> Spawns[None]:
    """Make so many children."""
    for number in range(first, first + many):
        yield word.of(f"word {number}").key(f"{number}")


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Measure those that are wanted."""
    if PUBLISH in wanted:
        count = setting.sized(COUNT, least=TASKS)
        contenders: dict[str, Contender] = {
            OURS: partial(made, "tell", count, setting.folder),
            CHILDREN: partial(made, "grow", count, setting.folder),
        }
        yield of_publish(setting, hold(contenders, setting.turns(REPEAT)), count)
    if LATENCY in wanted:
        say("latency of topics")
        samples = setting.sized(SAMPLES, least=10)
        yield of_latency(setting, latencies(samples, setting.folder), beside(samples, setting.folder))


def made(what: str, count: int, folder: Path) -> float:
    """Let 100 tasks make so many of something; how many in a second of processor time."""
    each, kind = count // TASKS, {"tell": tell, "grow": grow}[what]
    with folder_in(folder) as place:
        engine._runtime.url = place / "bench.db"
        began = time.process_time()
        run = engine.run([kind.of(each * at, each) for at in range(TASKS)], order="any", threads=0)
        seconds = time.process_time() - began
        there = words.read("count").lag if what == "tell" else run.counts.done - TASKS
        engine.close()
    if there != each * TASKS:
        raise AssertionError(f"{there} of {each * TASKS}")
    return each * TASKS / seconds


def latencies(samples: int, folder: Path) -> list[float]:
    """Milliseconds from a publication here until another process has it."""
    with folder_in(folder) as place:
        file = place / "bench.db"
        program = Engine(file)
        topic = program.topic("words", str)
        topic.publish("first")
        command = [sys.executable, "-m", "bench.coordination_topics", str(file)]
        other = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        other.stdout.readline()
        chance, found = random.Random(SEED), list[float]()
        for number in range(samples):
            time.sleep(chance.uniform(*PAUSE))
            began = time.monotonic_ns()
            topic.publish(f"{number}")
            found.append((int(other.stdout.readline()) - began) / 1e6)
        topic.publish("over")
        other.communicate()
        program.close()
    return found


def beside(samples: int, folder: Path) -> list[float]:
    """Milliseconds from a publication until a thread of this process has it."""
    with folder_in(folder) as place:
        program = Engine(place / "bench.db")
        topic, came = program.topic("words", str), SimpleQueue[int]()
        topic.publish("first")
        following = iter(topic.follow())

        def follow() -> None:
            for each in following:
                if each.value == "over":
                    return
                came.put(time.monotonic_ns())

        thread = threading.Thread(target=follow)
        thread.start()
        chance, found = random.Random(SEED), list[float]()
        for number in range(samples):
            time.sleep(chance.uniform(*PAUSE))
            began = time.monotonic_ns()
            topic.publish(f"{number}")
            found.append((came.get() - began) / 1e6)
        topic.publish("over")
        thread.join()
        program.close()
    return found


def of_publish(setting: Setting, rates: Rates, count: int) -> Figure:
    """The figure that follows from the turns."""
    share = rates.ratio(OURS, CHILDREN)
    return Figure(
        name=PUBLISH,
        value=rates.middle(OURS),
        unit="publications in a task/s of processor time",
        ratios={CHILDREN: share},
        durability={OURS: KEEPS["power"], CHILDREN: KEEPS["power"]},
        scale=setting.scale,
        repeat=len(rates.turns[OURS]),
        bar=Bar(f"at most {MOST} x the cost of a child", share.median >= 1 / MOST),
        more={
            "publications": count,
            "children_per_s": significant(rates.middle(CHILDREN)),
            "cost_of_a_child": significant(1 / share.median),
        },
    )


def of_latency(setting: Setting, other: list[float], same: list[float]) -> Figure:
    """The figure that follows from the samples."""
    p50, here = percentile(other, 0.5), percentile(same, 0.5)
    return Figure(
        name=LATENCY,
        value=p50,
        unit="ms from a publication to a follower in another process (p50)",
        better="less",
        ratios={},
        durability={OURS: KEEPS["power"]},
        scale=setting.scale,
        repeat=1,
        bar=Bar(f"p50 under {MOST_MS} ms, in the same process too", max(p50, here) < MOST_MS),
        more={
            "p99_ms": significant(percentile(other, 0.99)),
            "same_process_ms": significant(here),
            "same_process_p99_ms": significant(percentile(same, 0.99)),
            "samples": len(other),
        },
    )


def follow(file: str) -> None:
    """Be the other process: say when each publication came."""
    program = Engine(file)
    following = iter(program.topic("words", str).follow())
    print("ready", flush=True)
    for each in following:
        if each.value == "over":
            break
        print(time.monotonic_ns(), flush=True)
    program.close()


SUITE = Suite(
    {
        PUBLISH: "publications of tasks, against children",
        LATENCY: "from a publication to a follower in another process",
    },
    measure,
)

if __name__ == "__main__":
    follow(sys.argv[1])
