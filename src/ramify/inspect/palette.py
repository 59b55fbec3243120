"""The colours of drawn graphs."""

from __future__ import annotations

from collections.abc import Mapping

#: By state: of the inside and of the outline. The empty one is for definitions.
COLOURS: Mapping[str, tuple[str, str]] = {
    "": ("#ffffff", "#57606a"),
    "waiting": ("#f6f8fa", "#8c959f"),
    "ready": ("#ddf4ff", "#54aeff"),
    "limited": ("#eef6fc", "#54aeff"),
    "running": ("#b6e3ff", "#0969da"),
    "done": ("#dafbe1", "#1a7f37"),
    "failed": ("#ffebe9", "#cf222e"),
    "skipped": ("#eaeef2", "#8c959f"),
    "cancelled": ("#fff8c5", "#9a6700"),
    "quarantined": ("#fbefff", "#8250df"),
}
