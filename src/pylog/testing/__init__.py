"""Tools for tests of a program that uses pylog.

StandIn         a Kafka for tests: a log in memory that any client can use, with faults on demand
assert_records  compares the records of a topic
SimClock        a clock that stands still until it is told to move; satisfies `pylog.runtime.clock.Clock`

with pylog.open(":memory:", clock=SimClock(wall_ms=1_700_000_000_000)) as log: ...
"""

from pylog.testing.assertions import assert_records
from pylog.testing.clock import SimClock
from pylog.testing.stand_in import SeenRequest, StandIn

__all__ = ["SeenRequest", "SimClock", "StandIn", "assert_records"]
