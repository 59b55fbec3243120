"""A library like many that compute: it starts threads when it is imported, and needs them for every call."""

import os
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

_asked: queue.SimpleQueue[tuple[int, queue.SimpleQueue[int]]] = queue.SimpleQueue()
_pool = ThreadPoolExecutor(2)
#: The process in which the threads are; a forked child has none of them.
_home = os.getpid()


def _serve() -> None:
    while True:
        number, answers = _asked.get()
        answers.put(number + 1)


threading.Thread(target=_serve, daemon=True).start()
list(_pool.map(abs, range(2)))


def compute(number: int) -> int:
    """The number and two more: one from the thread, one from the pool."""
    assert os.getpid() == _home
    answers: queue.SimpleQueue[int] = queue.SimpleQueue()
    _asked.put((number, answers))
    return _pool.submit(lambda: answers.get(timeout=10) + 1).result()
