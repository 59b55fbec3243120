"""Decoders: what makes values of a type from JSON bytes, or from a tree of lists and dicts.

Promise: any threads may ask for them at the same time. msgspec works out what a class looks like when it is first told
to decode it, and a thread that decodes the same class meanwhile takes what is half done, which ends the process with a
segmentation fault. So classes are worked out here, one at a time, and nobody else gives a type to msgspec.
"""

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
Hook = Callable[[type, Any], Any]

#: Taken twice by one thread when working a class out imports a module that has tasks.
_one_at_a_time = threading.RLock()


def decoder(kind: type[T], dec_hook: Hook | None = None) -> msgspec.json.Decoder[T]:
    """Return what decodes values of a type; TypeError when msgspec cannot."""
    with _one_at_a_time:
        return msgspec.json.Decoder(kind, dec_hook=dec_hook)


def converter(
    kind: type[T], dec_hook: Hook | None = None, *, strict: bool = True, str_keys: bool = False
) -> Callable[[object], T]:
    """Return what makes values of a type from trees."""
    decoder(kind, dec_hook)
    return partial(msgspec.convert, type=kind, dec_hook=dec_hook, strict=strict, str_keys=str_keys)


def _begin_anew() -> None:
    """In a forked child: the thread that worked something out is not there."""
    global _one_at_a_time
    _one_at_a_time = threading.RLock()


os.register_at_fork(after_in_child=_begin_anew)
