"""The states of the records of a share partition, and batches of records in one state, as they are written down.

    AVAILABLE -> ACQUIRED -> ACKNOWLEDGED     accepted
        ^           |-----> ARCHIVED          rejected, or delivered as often as allowed, or a gap
        |-----------|                         released, or its lock has ended

ACQUIRED is never written down: a share partition that is made again gives such records again. (Kafka: RecordState,
PersisterStateBatch, PersisterStateBatchCombiner.)
"""

import enum
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple


class RecordState(enum.IntEnum):
    """The state of a record; the values are those of Kafka's records."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class AcknowledgeType(enum.IntEnum):
    """The word of a member about a record; the values are those of Kafka's requests."""

    GAP = 0
    """There is no such record."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """It is still worked on: its lock begins again (KIP-1222)."""


class StoredBatch(NamedTuple):
    """Neighbouring records in one state, as they are written down. `last_offset` is in it."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


_FIRST, _LAST = attrgetter("first_offset"), attrgetter("last_offset")


def pruned(batches: Iterable[StoredBatch], start_offset: int) -> list[StoredBatch]:
    """The batches, which are sorted, without what lies before `start_offset`; -1: all of them."""
    found = list(batches)
    if not found or found[0].first_offset >= start_offset:
        return found
    return [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in found
        if batch.last_offset >= start_offset
    ]


def combined(known: list[StoredBatch], new: Iterable[StoredBatch], start_offset: int) -> list[StoredBatch]:
    """The batches in `known`, which are sorted and do not overlap, and in `new`, without what lies before
    `start_offset`.

    A record in both has the higher count of deliveries, and of equal ones the later state. Neighbours in one state are
    one batch.
    """
    whole = pruned(known, start_offset)
    for one in new:
        # These are in no order.
        if one.last_offset < start_offset:
            continue
        batch = one if one.first_offset >= start_offset else one._replace(first_offset=start_offset)
        if not whole or whole[-1].last_offset + 1 < batch.first_offset:
            whole.append(batch)
            continue
        low = bisect_left(whole, batch.first_offset - 1, key=_LAST)
        high = bisect_right(whole, batch.last_offset + 1, lo=low, key=_FIRST)
        whole[low:high] = _joined(_overlaid(whole[low:high], batch))
    return whole


def _overlaid(known: list[StoredBatch], new: StoredBatch) -> list[StoredBatch]:
    """Batches that do not overlap, with a further one over them."""
    made, position = [], new.first_offset
    for batch in known:
        if batch.first_offset < new.first_offset:
            made.append(batch._replace(last_offset=min(batch.last_offset, new.first_offset - 1)))
        first, last = max(batch.first_offset, new.first_offset), min(batch.last_offset, new.last_offset)
        if first <= last:
            if position < first:
                made.append(new._replace(first_offset=position, last_offset=first - 1))
            winner = max(batch, new, key=lambda one: (one.delivery_count, one.delivery_state))
            made.append(winner._replace(first_offset=first, last_offset=last))
            position = last + 1
        if batch.last_offset > new.last_offset:
            if position <= new.last_offset:
                made.append(new._replace(first_offset=position))
                position = new.last_offset + 1
            made.append(batch._replace(first_offset=max(batch.first_offset, new.last_offset + 1)))
    if position <= new.last_offset:
        made.append(new._replace(first_offset=position))
    return made


def _joined(batches: list[StoredBatch]) -> list[StoredBatch]:
    """Sorted batches, neighbours in one state as one."""
    made: list[StoredBatch] = []
    for batch in batches:
        if made and made[-1].last_offset + 1 == batch.first_offset and made[-1][2:] == batch[2:]:
            made[-1] = made[-1]._replace(last_offset=batch.last_offset)
        else:
            made.append(batch)
    return made
