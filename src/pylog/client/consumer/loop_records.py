"""The records that a loop over a consumer has polled and not come to yet.

They count as unread: a position or a commit is before them, and a seek, a pause or a poll takes them back.
"""

from collections.abc import Iterator
from operator import length_hint

from pylog.client.consumer.subscription import SubscriptionState
from pylog.record import ConsumerRecord, TopicPartition


class LoopRecords:
    """The list that a loop goes through, and how far it is."""

    def __init__(self, subscription: SubscriptionState) -> None:
        self._subscription = subscription
        self._polled: list[ConsumerRecord] = []
        self.unseen: Iterator[ConsumerRecord] = iter(self._polled)
        """The rest of the list."""

    @property
    def is_at_end(self) -> bool:
        """Whether the loop has come to the end of the list."""
        return not length_hint(self.unseen)

    def begin(self, polled: list[ConsumerRecord]) -> None:
        """Go on with what a poll has given."""
        self._polled = polled
        self.unseen = iter(polled)

    def first_unseen(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that the loop has not come to."""
        left = self._polled[len(self._polled) - length_hint(self.unseen) :]
        return {TopicPartition(record.topic, record.partition): record.offset for record in reversed(left)}

    def take_back(self) -> None:
        """Give up what the loop has not come to: it will be read again."""
        if not self._polled:
            return
        for key, offset in self.first_unseen().items():
            if key in self._subscription.states:
                self._subscription.move(key, offset)
        # Emptying the list ends the iterator over it, wherever the loop is.
        self._polled.clear()
