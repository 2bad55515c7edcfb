"""What producers and consumers did, and what they saw: all that the checker is given.

A history is a list of operations in the order in which they ended. An operation is a transaction, or one call outside
of any; its actions stand in the order in which it took them. Every value is written by one action alone, so that who
reads it knows its writer; where it lies twice, the log has doubled it.

After jepsen.tests.kafka.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

Partition = Hashable
Value = Hashable


class Outcome(Enum):
    OK = "it was answered: it happened"
    FAILED = "it was answered: it did not happen, nor will it"
    UNKNOWN = "it was not answered: perhaps"


class Send(NamedTuple):
    partition: Partition
    value: Value
    offset: int | None = None
    """Where it lies, if that was answered."""


class Read(NamedTuple):
    partition: Partition
    offset: int
    value: Value


class Poll(NamedTuple):
    """Records as they were given, whatever became of the transaction around them. Consumers read what is committed."""

    reads: tuple[Read, ...]


class Moved(NamedTuple):
    """The process may be anywhere in these partitions from now on: sought, assigned, rewound, restarted."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Op:
    process: Hashable
    outcome: Outcome
    actions: tuple[Send | Poll | Moved, ...]
    transactional: bool = True
    start: int = 0
    """Times are of one clock for all processes."""
    ending: int | None = None
    """When its commit was asked for; None: when it started."""
    end: int = 0
