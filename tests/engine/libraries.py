"""Tasks that use what programs use: processes, pools, other programs, event loops, libraries with threads of their own.

`python tests/engine/libraries.py PROCESSES FILE` runs them all and prints what each came to as JSON. It is run as a
file, as users run theirs: other processes then find its functions only where a worker has them.
"""

import asyncio
import json
import multiprocessing
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from ramify import Engine
from tests.engine.busy_library import compute

#: In place of a wait for ever, which would tell nothing.
LIMIT = 20.0

engine = Engine("libraries.db")


def square(number: int) -> int:
    return number * number


def leave(code: int) -> None:
    sys.exit(code)


def process(how: str) -> str:
    context: Any = multiprocessing.get_context(how)
    made = context.Process(target=leave, args=(3,))
    made.start()
    end = time.monotonic() + LIMIT
    # Who starts a child asks after all others. If another task does so as this child ends, it gets the code and `join`
    # returns without, for the moment until that task has written it down (CPython's gh-130895).
    while made.exitcode is None and time.monotonic() < end:
        made.join(end - time.monotonic())
    return str(made.exitcode)


def pool(how: str) -> str:
    with multiprocessing.get_context(how).Pool(2) as made:
        return str(made.map_async(square, range(4)).get(LIMIT))


def process_pool(how: str) -> str:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(how)) as made:
        return str(list(made.map(square, range(4), timeout=LIMIT)))


def thread_pool() -> str:
    with ThreadPoolExecutor(2) as made:
        return str(list(made.map(square, range(4), timeout=LIMIT)))


def piped() -> str:
    return subprocess.run(["cat"], input="given", capture_output=True, text=True, timeout=LIMIT).stdout


def reading() -> str:
    return subprocess.run(["cat"], stdout=subprocess.PIPE, text=True, timeout=LIMIT).stdout


def interrupted() -> str:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as started:
        started.send_signal(signal.SIGINT)
        try:
            return str(started.wait(LIMIT))
        finally:
            started.kill()


async def echo() -> str:
    async with asyncio.timeout(LIMIT):
        started = await asyncio.create_subprocess_exec("echo", "heard", stdout=asyncio.subprocess.PIPE)
        said, _ = await started.communicate()
        return said.decode().strip()


USES: dict[str, Callable[[], str]] = {
    "multiprocessing.Process-fork": lambda: process("fork"),
    "multiprocessing.Process-spawn": lambda: process("spawn"),
    "multiprocessing.Pool-fork": lambda: pool("fork"),
    "multiprocessing.Pool-spawn": lambda: pool("spawn"),
    "ProcessPoolExecutor-fork": lambda: process_pool("fork"),
    "ProcessPoolExecutor-spawn": lambda: process_pool("spawn"),
    "ProcessPoolExecutor-forkserver": lambda: process_pool("forkserver"),
    "ThreadPoolExecutor": thread_pool,
    "subprocess-piped": piped,
    "subprocess-reading": reading,
    "subprocess-interrupted": interrupted,
    "asyncio.run": lambda: asyncio.run(echo()),
    "library-with-threads": lambda: str(compute(40)),
}


@engine.task(retries=0)
def use(name: str) -> list[str]:
    return [name, USES[name]()]


@engine.task(retries=0)
async def use_our_loop(name: str) -> list[str]:
    return [name, await echo()]


def main(processes: int, file: str) -> None:
    engine._runtime.url = file
    calls = [*map(use.of, USES), use_our_loop.of("asyncio-subprocess")]
    run = engine.run(calls, order="any", threads=len(calls), processes=processes)
    print(json.dumps({**dict(run.results(partial=True)), **{each.arguments[0]: str(each) for each in run.errors()}}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
