"""The health of a store, from the engine."""

from tests.engine.conftest import Make
from tests.engine.jobs import jobs
from tests.kernel.shop import wait_until


def test_an_engine_tells_the_health_of_its_store(make: Make) -> None:
    engine = make(jobs)
    with engine.working(threads=1):
        wait_until(lambda: len(engine.health().processes) == 1)
        assert not engine.health().unhealthy
    assert not engine.health().processes
