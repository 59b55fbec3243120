"""Every change that a scenario makes to a file, failed or torn in turn, and the power cut at every sync.

The counter loop: the fault hits change 1, then change 2, and so on until the scenario runs through untouched. So
nothing has to be chosen, and nothing between two changes is left out.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import count
from pathlib import Path

import pytest

from ramify.errors import StoreUnavailable
from ramify.store.open import Durability
from tests.crash import judge
from tests.crash.clients import STORE
from tests.crash.disk import GO, Answer, Change, Disk, Step, fail, let, tear
from tests.crash.power import Power
from tests.crash.scenario import TREE, Died, Player, unexpected
from tests.crash.witness import Said
from tests.crash.worker import RUN_NAME

Count = Callable[[str, object], None]


class Way(Enum):
    """What happens at the chosen change, and who goes on afterwards."""

    ONCE = "fails once; the same store goes on"
    LASTING = "fails until two verbs were not answered; the same store goes on"
    REOPENED = "torn, and everything after it fails; the same process opens the store anew and sends again"
    SUCCEEDED = "torn, and the process dies; another one goes on"


class Hit:
    """The fault of one play: hits the change with a certain number."""

    def __init__(self, number: int, way: Way, disk: Disk, player: Player) -> None:
        self._left, self._way, self._disk, self._player = number, way, disk, player
        self._unanswered = 0
        self.struck: Step | None = None
        disk.fault = self

    def __call__(self, step: Step) -> Answer:
        if self.struck is not None:
            return fail(step) if self._way is Way.LASTING and self._unanswered < 2 else GO
        self._left -= 1
        if self._left:
            return GO
        self.struck = step
        if self._way in (Way.ONCE, Way.LASTING):
            return fail(step)
        self._disk.dead = True
        return tear(step)

    def trouble(self, error: StoreUnavailable) -> None:
        """What the worker does about a verb that was not answered."""
        assert self.struck is not None, f"nothing was done to the disk, and yet: {error}"
        self._unanswered += 1
        assert self._unanswered < 20, error
        if self._way is Way.SUCCEEDED:
            raise Died
        if self._way is Way.REOPENED:
            # On a dead disk, so that closing cannot tidy up what the next one has to find.
            self._player.close()
            self._disk.dead = False


def play(folder: Path, number: int, way: Way, then: int | None = None) -> Step | None:
    """Play the scenario with the fault at one change; the change, or None when there are not so many.

    With `then`, whoever goes on meets another fault at that change of its own.
    """
    folder.mkdir()
    player = Player(folder)
    with Disk(folder) as disk:
        hit = Hit(number, way, disk, player)
        with suppress(Died):
            player.play(hit.trouble)
        player.close()
        disk.fault, disk.dead = let, False
        player.finish(Hit(then, Way.ONCE, disk, player).trouble if then is not None else unexpected)
        complaints = player.verdict()
    assert complaints == [], (number, way, hit.struck, then)
    player.witness.close()
    shutil.rmtree(folder)
    return hit.struck


def play_all(folder: Path, way: Way, numbers: Iterable[int]) -> int:
    """The counter loop; how many changes were hit."""
    for plays, number in enumerate(numbers):
        if play(folder / str(number), number, way) is None:
            return plays
    raise AssertionError("there is always a number that is too large")


def test_the_scenario_changes_files_in_every_way_there_is(tmp_path: Path) -> None:
    with Disk(tmp_path) as disk:
        Player(tmp_path).play()
    seen = {(step.change, step.path.name.removeprefix(STORE)) for step in disk.steps}
    assert seen >= {
        (Change.CREATE, "-wal"),
        (Change.WRITE, ""),
        (Change.WRITE, "-wal"),
        (Change.SYNC, ""),
        (Change.SYNC, "-wal"),
        (Change.TRUNCATE, "-wal"),
        (Change.DELETE, "-wal"),
        (Change.MAP, "-shm"),
    }


WAYS = pytest.mark.parametrize("way", list(Way), ids=lambda way: way.name.lower())


@WAYS
def test_an_eighth_of_all_changes_is_recovered_from(way: Way, tmp_path: Path, record_property: Count) -> None:
    first = 1 + list(Way).index(way)
    record_property("changes", play_all(tmp_path, way, count(first, 2 * len(Way))))


@pytest.mark.full
@WAYS
def test_every_change_is_recovered_from(way: Way, tmp_path: Path, record_property: Count) -> None:
    record_property("changes", play_all(tmp_path, way, count(1)))


def play_pairs(folder: Path, chance: random.Random, pairs: int) -> None:
    """A death somewhere, and then an error while the successor opens, recovers or goes on."""
    for number in range(pairs):
        # Half of the second faults hit the opening of the store, which is what is special about a successor.
        then = chance.randint(1, chance.choice((12, 300)))
        play(folder / str(number), chance.randint(1, 600), Way.SUCCEEDED, then)


def test_an_error_while_recovering_from_a_crash_is_recovered_from(tmp_path: Path, seed: random.Random) -> None:
    play_pairs(tmp_path, seed, 40)


@pytest.mark.full
def test_any_error_while_recovering_from_a_crash_is_recovered_from(tmp_path: Path, seed: random.Random) -> None:
    play_pairs(tmp_path, seed, 500)


@dataclass(frozen=True)
class Cuts:
    """When the power is cut: at every change of a sort, or at every `stride`th of them."""

    durability: Durability
    at: Change
    stride: int = 1

    def __str__(self) -> str:
        return self.durability


#: Without a sync in each commit there is little between two syncs but writes.
CUTS = pytest.mark.parametrize("cuts", [Cuts("power", Change.SYNC), Cuts("process", Change.WRITE, 17)], ids=str)


def cut_power(folder: Path, cuts: Cuts, number: int, chance: random.Random, images: int) -> bool:
    """Play until the power is cut for the `number`th time, and look at what may be left; False at the end."""
    played = folder / "played"
    played.mkdir()
    player = Player(played, cuts.durability)
    power = Power()
    left_to_go = number * cuts.stride

    def fault(step: Step) -> Answer:
        nonlocal left_to_go
        left_to_go -= step.change is cuts.at
        if not left_to_go:
            disk.dead = True
            return fail(step)
        return power(step)

    def die(error: StoreUnavailable) -> None:
        raise Died

    with Disk(played, fault) as disk:
        with suppress(Died):
            player.play(die)
        player.close()
    for image in range(images):
        left = folder / f"left-{image}"
        left.mkdir()
        power.cut(left, chance)
        look_at(left, player, cuts.durability)
        shutil.rmtree(left)
    player.witness.close()
    shutil.rmtree(played)
    return disk.dead


def look_at(left: Path, player: Player, durability: Durability) -> None:
    """After a power cut: what was promised is there, and the work can go on."""
    with Disk(left):
        successor = Player(left, durability)
        store = successor.open()
        lines = player.lines()
        if durability == "process":
            # Commits may be missing at the end, but none before the last that is there.
            last = max((commit.seq for commit in store.reads.tail(0).commits), default=0)
            lines = [line for line in lines if line.said is not Said.COMMIT_ACK or line.seq <= last]
        elif lines:
            assert store.reads.find_run(RUN_NAME) is not None
        assert judge.in_between(store, TREE, lines) == []
        successor.close()
        successor.finish()
        assert successor.verdict(heard=False) == []
        successor.witness.close()


def cut_everywhere(folder: Path, cuts: Cuts, chance: random.Random, images: int) -> int:
    """The counter loop; how many images were looked at."""
    for number in count(1):
        if not cut_power(folder, cuts, number, chance, images):
            return (number - 1) * images
    raise AssertionError("there is always a number that is too large")


@CUTS
def test_a_power_cut_at_any_moment_leaves_what_was_promised(
    cuts: Cuts, tmp_path: Path, seed: random.Random, record_property: Count
) -> None:
    record_property("power cuts", cut_everywhere(tmp_path, cuts, seed, images=2))


@pytest.mark.full
@CUTS
def test_a_power_cut_at_any_moment_leaves_what_was_promised_however_it_is_torn(
    cuts: Cuts, tmp_path: Path, seed: random.Random, record_property: Count
) -> None:
    record_property("power cuts", cut_everywhere(tmp_path, cuts, seed, images=30))
