"""The records that a loop over a consumer has polled and not come to yet.

They count as unread: a position or a commit is before them, and a seek, a pause or a poll takes them back.
"""

from collections.abc import Callable, Iterator
from operator import length_hint

from pylog.client.consumer.pending_requests import PendingRequests
from pylog.client.consumer.subscription import Polled, SubscriptionState
from pylog.config import ConsumerConfig
from pylog.record import TopicPartition
from pylog.runtime.signals import WHOLE


class LoopRecords:
    """The list that a loop goes through, and how far it is."""

    def __init__(self, requests: PendingRequests, subscription: SubscriptionState, config: ConsumerConfig) -> None:
        self._requests = requests
        self._subscription = subscription
        self._config = config
        self._polled: list[Polled] = []
        self._unseen: Iterator[Polled] = iter(self._polled)
        """The rest of the list."""

    def lists(self, poll: Callable[[int], list[Polled]]) -> Iterator[Iterator[Polled]]:
        """The lists of a loop: the rest that another loop has left, and list after list."""
        limit_ms = self._config.consumer_timeout_ms
        while not self._requests.is_ended:
            if not length_hint(self._unseen):
                with WHOLE:
                    self.begin(poll(self._config.fetch_max_wait_ms if limit_ms is None else limit_ms))
                if limit_ms is not None and not self._polled:
                    return
            yield self._unseen

    def begin(self, records: list[Polled]) -> None:
        """Have a loop go through these."""
        self._polled = records
        self._unseen = iter(records)

    def next(self) -> "Polled | None":
        """The next record of the list; None at its end."""
        return next(self._unseen, None)

    def first_unseen(self) -> dict[TopicPartition, Polled]:
        """The first record of each partition that the loop has not come to."""
        left = self._polled[len(self._polled) - length_hint(self._unseen) :]
        return {TopicPartition(record.topic, record.partition): record for record in reversed(left)}

    def take_back(self) -> None:
        """Give up what the loop has not come to: it will be read again."""
        if not self._polled:
            return
        self._subscription.take_back(list(self.first_unseen().values()))
        # Emptying the list ends the iterator over it, wherever the loop is.
        self._polled.clear()
