"""Plain appends of many threads that share a sync, for the compiled kernel: see `compiled.group_append`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from pylog.kernel.pure.fast_append import AppendState
from pylog.kernel.pure.header import BatchHeader
from pylog.kernel.pure.tail import Appended


class LeadLock(Protocol):
    """The lock of those who make what others have appended durable."""

    def acquire(self, blocking: bool = ...) -> bool: ...
    def release(self) -> None: ...


class GroupAppends:
    """Where plain batches of one partition wait for each other; in Python they go the ordinary way.

    Whoever holds `leading` appends a group and syncs, in a `whole` block. `ordinarily(role, batch)` appends what turns
    out not to be plain, or gives None, and `show(role)` shows what is durable.
    """

    def __init__(
        self, leading: LeadLock, whole: AbstractContextManager[Any],
        ordinarily: Callable[[Any, Any], Appended | None], show: Callable[[Any], None],
    ) -> None:  # fmt: skip
        pass

    def append(
        self, partition: AppendState, batch: BatchHeader, epoch: int, now_ms: int, role: Any
    ) -> Appended | None:  # fmt: skip
        """Append a batch with those of other threads, make it durable and show it, for a leader in that `role`.

        None where `fast_append` would give it for its batch alone, or `ordinarily` does. Raises what the partition
        raises that cannot write or sync, and what a signal's handler does.
        """
        return None

    def hand_over(self) -> None:
        """Let one of those who have joined lead: the lead is free."""
