"""The records that a producer could not deliver, until they are looked at."""

import logging
from collections.abc import Iterable, Sequence

from pylog.errors import Undelivered
from pylog.runtime.signals import WholeLock

logger = logging.getLogger("pylog.client")

FIRST = 5
"""So many errors are kept; of others only that they were."""


class UnseenFailures:
    """The number of records that have failed and were not looked at, and the first errors of these. Thread-safe.

    A delivery that fails tells `looked` of each of its records that is looked at first, by `result` or `exception`, or
    because it has a callback.
    """

    def __init__(self) -> None:
        self._lock = WholeLock()
        self._count = 0
        self._first: dict[int, tuple[BaseException, int]] = {}
        """By the identity of an error: the error, and how many records have failed with it."""

    def add(self, error: BaseException, count: int) -> None:
        """So many records have failed."""
        with self._lock:
            self._count += count
            self._change(error, count)

    def looked(self, error: BaseException) -> None:
        """Note a first look at one of them."""
        with self._lock:
            # What was taken is told already.
            self._count = max(self._count - 1, 0)
            self._change(error, -1)

    def _change(self, error: BaseException, by: int) -> None:
        key = id(error)
        _, count = self._first.get(key, (error, 0))
        if count + by <= 0:
            self._first.pop(key, None)
        elif count or len(self._first) < FIRST:
            self._first[key] = (error, count + by)

    def peek(self) -> Undelivered | None:
        """The failures so far, or None."""
        with self._lock:
            return _undelivered(self._count, [error for error, _ in self._first.values()]) if self._count else None

    def take(self) -> Undelivered | None:
        """The failures so far, which count as told from now on."""
        found = self.peek()
        with self._lock:
            self._count = 0
            self._first.clear()
        return found


def together(found: Iterable[Undelivered | None]) -> Undelivered | None:
    """One for those of several producers."""
    some = [one for one in found if one is not None]
    if len(some) < 2:
        return some[0] if some else None
    return _undelivered(sum(one.count for one in some), [error for one in some for error in one.errors][:FIRST])


def _undelivered(count: int, errors: Sequence[BaseException]) -> Undelivered:
    reason = "a record was not delivered, and its future was not looked at"
    if count > 1:
        reason = f"{count} records were not delivered, and their futures were not looked at"
    if errors:
        reason += f": {type(errors[0]).__name__}: {errors[0]}"
    return Undelivered(reason, count, errors)


def tell_failures(found: Undelivered | None, passing: BaseException | None = None) -> None:
    """Raise it; where another error is `passing`, which it must not hide, it is logged."""
    if passing is not None:
        log_failures(found)
    elif found is not None:
        raise found from next(iter(found.errors), None)


def log_failures(found: Undelivered | None) -> None:
    """Log them, where no caller can be told."""
    if found is not None:
        logger.error("%s", found)
