"""A partition that takes no append in one step of the kernel, whichever kernel runs."""

from typing import Any

from pylog import partition as module
from pylog.kernel import AppendState, pure
from pylog.partition import Partition


class GeneralState(AppendState):
    fast_append = pure.AppendState.fast_append
    fast_sync = pure.AppendState.fast_sync
    fast_advance = pure.AppendState.fast_advance


def general_partition(*arguments: Any, **options: Any) -> Partition:
    """A `Partition` made of these, whose every append goes the general way."""
    module.AppendState = GeneralState  # type: ignore[misc]
    try:
        return Partition(*arguments, **options)
    finally:
        module.AppendState = AppendState  # type: ignore[misc]
