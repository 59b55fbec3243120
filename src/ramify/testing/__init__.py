"""The public test kit.

For users: `attempt` tries one call by itself, `using` puts an engine on another store and its time into a test's hands,
and `ramify.testing.fixture` makes pytest fixtures of that. For store authors: `conformance` (the contract as cases),
`oracle` and `clock`. The fixture `workbench` comes from the pytest plug-in of Ramify, `ramify.pytest_plugin`.

Nothing in here knows a backend, and only `fixture` needs pytest.
"""

from ramify.testing.attempt import Attempted, aattempt, attempt
from ramify.testing.clock import FakeClock
from ramify.testing.enqueued import Enqueued
from ramify.testing.using import Workbench, using

__all__ = ["Attempted", "Enqueued", "FakeClock", "Workbench", "aattempt", "attempt", "using"]
