"""Transactions that are decided, and whose completion is not in the log yet.

    left      the partitions that are not known to have their marker: it is written again after a while
    unsafe    those that have it, and where it ends: it may not be durable yet

A transaction is over when `left` is empty. Its ending is kept until a record of the id follows the decision, and none
follows before the markers are durable: the decision that a lost marker is made from would be hidden.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pylog.coordinator.effects import MarkerErrors
from pylog.errors import InvalidProducerEpoch, PylogError, UnknownTopicOrPartition
from pylog.record import TopicPartition

RETRY_MS = 100
RETRY_MAX_MS = 1000


@dataclass(slots=True)
class Ending:
    """A transaction that is decided."""

    left: set[TopicPartition]
    """The partitions that are not known to have their marker."""
    unsafe: dict[TopicPartition, int] = field(default_factory=dict)
    """The partitions that have their marker, and where it ends: it may not be durable yet."""
    failures: int = 0
    error: PylogError | None = None
    """The latest refusal of a marker."""

    def note(self, errors: MarkerErrors, unsafe: Mapping[TopicPartition, int]) -> None:
        """Take over how the markers went. A partition that is not there any more needs none, and neither does one that
        knows a later epoch: the transaction is over there, or was lost with a power cut.
        """
        for partition, error in errors.items():
            if error is None or isinstance(error, UnknownTopicOrPartition | InvalidProducerEpoch):
                self.left.discard(partition)
            else:
                self.error = error
        self.unsafe |= unsafe


class Endings:
    """The endings of one coordinator, by transactional id. Not thread-safe."""

    def __init__(self) -> None:
        self._endings: dict[str, Ending] = {}
        self._retries: dict[str, int] = {}  # when the markers, or the completion, of an ending are tried again

    def __contains__(self, name: str) -> bool:
        return name in self._endings

    def get(self, name: str) -> Ending | None:
        """The ending of the latest decision of an id."""
        return self._endings.get(name)

    def decided(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        """Begin with the ending of a transaction in these partitions."""
        self.forget(name)
        self._endings[name] = Ending(set(partitions))

    def forget(self, name: str) -> None:
        """Forget the ending of an id: a record follows its decision."""
        self._endings.pop(name, None)
        self._retries.pop(name, None)

    def unsafe(self, name: str | None) -> dict[TopicPartition, int]:
        """Where markers end that have to be durable before the next record of this id, or (None) of any."""
        if name is not None:
            ending = self._endings.get(name)
            return ending.unsafe if ending is not None else {}
        found: dict[TopicPartition, int] = {}
        for ending in self._endings.values():
            for key, end in ending.unsafe.items():
                found[key] = max(end, found.get(key, 0))
        return found

    def note_durable(self, ends: Mapping[TopicPartition, int]) -> None:
        """Forget the markers that lie below what is durable of their partitions."""
        for ending in self._endings.values():
            for key, end in list(ending.unsafe.items()):
                if end <= ends.get(key, 0):
                    del ending.unsafe[key]

    # --- again -------------------------------------------------------------------------------------------------------

    def take_over(self, tick_ms: int) -> list[str]:
        """Begin where the log ends: a completion that is all that lacks is due now. Gives the ids that lack markers."""
        self._retries = dict.fromkeys((name for name, ending in self._endings.items() if not ending.left), tick_ms)
        return [name for name, ending in self._endings.items() if ending.left]

    def retry(self, name: str, tick_ms: int) -> None:
        """Try again after a while, which grows with each failure."""
        ending = self._endings[name]
        self._retries[name] = tick_ms + min(RETRY_MS << min(ending.failures, 10), RETRY_MAX_MS)
        ending.failures += 1

    def retry_if_new(self, name: str, tick_ms: int) -> None:
        """The same, unless that is to come anyway."""
        if name not in self._retries:
            self.retry(name, tick_ms)

    def cancel_retry(self, name: str) -> None:
        """Do not try again."""
        self._retries.pop(name, None)

    @property
    def due_ms(self) -> int | None:
        """When the first is tried again, in ticks."""
        return min(self._retries.values()) if self._retries else None

    def due(self, tick_ms: int) -> list[str]:
        """The ids to try again now."""
        return [name for name, tick in self._retries.items() if tick <= tick_ms]
