"""The standing of a share partition at one moment: how many records members have, how often records were delivered, and
how long the oldest lock is held.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from pylog.coordinator.share.runs import Run
from pylog.coordinator.share.states import RecordState


class Standing(NamedTuple):
    """The records of a share partition that were delivered, and are not done."""

    start_offset: int
    end_offset: int
    """All records between these two have been delivered, or were passed over."""
    batches: int
    """How many neighbours in one state there are between them."""
    acquired: int
    """How many records members have now."""
    deliveries: dict[int, int]
    """How many records were delivered so often, by the number of deliveries."""
    oldest_lock_ms: int | None
    """How long ago the oldest lock has begun, or was renewed; None: no record is locked."""


def standing(start: int, end: int, spans: Iterable[tuple[Run, int, int]], lock_ms: int, now_ms: int) -> Standing:
    """The standing of these runs, as `Runs.spans` gives them, where locks last for `lock_ms`."""
    acquired = batches = 0
    deliveries, first_due_ms = Counter[int](), None
    for run, first, stop in spans:
        batches += 1
        if run.state is RecordState.ACQUIRED:
            acquired += stop - first
            first_due_ms = run.due_ms if first_due_ms is None else min(first_due_ms, run.due_ms)
        if run.deliveries and not run.is_final:
            deliveries[run.deliveries] += stop - first
    oldest_ms = None if first_due_ms is None else max(0, now_ms + lock_ms - first_due_ms)
    return Standing(start, end, batches, acquired, dict(sorted(deliveries.items())), oldest_ms)
