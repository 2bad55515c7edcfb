"""What tests of a program that uses pylog need.

StandIn       a Kafka for tests: a log in memory that any client can use, with faults on demand
assert_records  compares the records of a topic
SimClock      a clock that stands still until it is told to move; satisfies `pylog.runtime.clock.Clock`
CrashFiles    files in memory that know what a power cut, or a kill, could leave of them
FaultFiles    files whose k-th call fails
check_files   what every `Files` has to do
check_kernel  what a kernel has to do: what the pure one does

with pylog.open(":memory:", clock=SimClock(wall_ms=1_700_000_000_000)) as log: ...
"""

from pylog.testing.assertions import assert_records
from pylog.testing.check_files import FILES_CHECKS, check_files
from pylog.testing.check_kernel import check_kernel
from pylog.testing.clock import SimClock
from pylog.testing.crash import CrashFiles
from pylog.testing.cuts import CrashState
from pylog.testing.faults import FaultFiles
from pylog.testing.stand_in import SeenRequest, StandIn

__all__ = [
    "FILES_CHECKS",
    "CrashFiles",
    "CrashState",
    "FaultFiles",
    "SeenRequest",
    "SimClock",
    "StandIn",
    "assert_records",
    "check_files",
    "check_kernel",
]
