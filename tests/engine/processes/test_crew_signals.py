"""What several workers tell, told once."""

from ramify.engine.processes.crew_signals import CrewSignals, words_of
from ramify.kernel.signals import Attempts, Buried, NobodyKnows, Replaced, Signal, StoreAway, StoreBack, Took, Worked


class Hall:
    """A chorus and what is heard of it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.heard: list[Signal] = []
        self.crew_signals = CrewSignals(self.heard.append, lambda: self.now)

    def sing(self, worker: int, signal: Signal) -> list[Signal]:
        words = words_of(signal)
        assert words is not None
        assert "\n" not in words
        self.heard.clear()
        self.crew_signals.hear(worker, words)
        return self.heard


def test_signals_come_through_as_they_were_sent() -> None:
    hall = Hall()
    worked = Worked(7, 1, 0.5, 0, (Attempts("é", "mail", (("done", 6), ("failed", 1)), 0.25, (6, 1)),))
    for signal in (StoreAway("disk\nfull"), Buried((1, 2), 3), Replaced("thread", "slow"), NobodyKnows((("é", 2),))):
        assert hall.sing(1, signal) == [signal]
    assert hall.sing(1, worked) == hall.sing(2, worked) == [worked]


def test_what_concerns_only_the_worker_itself_stays_with_it() -> None:
    assert words_of(Took(3)) is None


def test_a_store_that_is_away_is_told_once_and_once_when_all_have_it_back() -> None:
    hall = Hall()
    assert hall.sing(1, StoreAway("full")) == [StoreAway("full")]
    assert hall.sing(2, StoreAway("full")) == []
    assert hall.sing(1, StoreBack(3.0)) == []
    assert hall.sing(2, StoreBack(4.0)) == [StoreBack(4.0)]
    assert hall.sing(2, StoreAway("full")) == [StoreAway("full")]


def test_a_worker_that_ended_while_the_store_was_away_is_not_waited_for() -> None:
    hall = Hall()
    hall.sing(1, StoreAway("full"))
    hall.sing(2, StoreAway("full"))
    hall.crew_signals.forget(1)
    assert hall.sing(2, StoreBack(4.0)) == [StoreBack(4.0)]


def test_a_kind_that_nobody_knows_is_told_by_one_worker_and_again_after_a_minute() -> None:
    hall = Hall()
    signal = NobodyKnows((("old", 3),))
    assert hall.sing(1, signal) == [signal]
    hall.now += 1
    assert hall.sing(2, signal) == []
    hall.now += 59
    assert hall.sing(1, signal) == [signal]
    assert hall.sing(2, signal) == []


def test_a_kind_that_nobody_knows_is_told_each_minute_whenever_the_workers_say_it() -> None:
    hall, told = Hall(), 0
    for _ in range(10):
        # Two that began half a minute apart, while tasks of that kind come in.
        for worker in (1, 2):
            told += len(hall.sing(worker, NobodyKnows((("old", round(hall.now)),))))
            hall.now += 30
    assert told == 10
