"""A shop with pages and pictures, some of which are gone: `python shop.py`. It takes a few seconds."""

import time

from ramify import Backoff, Engine, Fatal, Spawns

engine = Engine("shop.db")


@engine.task(retries=1, backoff=Backoff(first=0.1))
def page(n: int) -> Spawns[int]:
    time.sleep(0.1)
    if n % 97 == 5:
        raise Fatal("404 Not Found")
    if n < 300:
        yield from (page.of(8 * n + k) for k in range(8))
    yield from (picture.of(2 * n + k) for k in range(2))
    return n


@engine.task(retries=1, backoff=Backoff(first=0.1))
def picture(n: int) -> int:
    time.sleep(0.1)
    return n


if __name__ == "__main__":
    engine.run(page.of(1), name="shop", threads=16)
