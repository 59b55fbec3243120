"""The tasks of ours in DAGs, by themselves."""

from __future__ import annotations

from ramify.shapes.dag.own import CLOSE, HANDLERS


def test_a_run_with_nothing_behind_it_is_closed_without_asking_how_it_ended() -> None:
    # Outside of an attempt there is nobody to ask.
    assert HANDLERS[CLOSE].fn([]) is None
