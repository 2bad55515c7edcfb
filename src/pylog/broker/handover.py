"""The debts of a role that ends, and their handover.

    tail             what was appended, and is not as safe as promised yet    a leader's successor claims it: synced
    transactions     what a coordinator has ahead of its log                  kept for a successor on this node
    waiting calls    the answers that wait for the role                       told that it is over, or read again
    share partitions what members of share groups hold                        forgotten: the next leader loads the rest

A leader that leads on in another epoch, or with other followers, has not ended, and owes what it owed.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pylog.broker.coordinator_router import CoordinatorRouter
from pylog.broker.guarantees import Guarantees
from pylog.broker.purgatory import Purgatory
from pylog.broker.replica_manager import EndedRoles
from pylog.broker.share_fetch import ShareFetches
from pylog.partition import Partition
from pylog.record import TopicPartition
from pylog.replica import Leader


class Handover:
    """The debts of the roles of one node."""

    def __init__(
        self, guarantees: Guarantees, coordinating: CoordinatorRouter, purgatory: Purgatory, share_fetches: ShareFetches
    ) -> None:
        self._guarantees = guarantees
        self._share_fetches = share_fetches
        self._coordinating = coordinating
        self._purgatory = purgatory

    @contextmanager
    def changing_roles(self) -> Iterator[EndedRoles]:
        """Around a change that ends roles: what they owe is handed over, also where the change fails half-way."""
        ended = EndedRoles()
        try:
            yield ended
        finally:
            for key, role in ended.roles:
                if isinstance(role, Leader):
                    self._hand_tail_over(role.partition)
                self._hand_transactions_over(key)
                self._hand_calls_over(key)

    def _hand_tail_over(self, partition: Partition) -> None:
        # A follower claims to have all of its log. A partition that was closed, for a move or a deletion, owes nothing;
        # one that fails here is latched, and claims nothing.
        self._guarantees.make_claimable(partition)

    def _hand_transactions_over(self, key: TopicPartition) -> None:
        self._coordinating.forget(key)

    def _hand_calls_over(self, key: TopicPartition) -> None:
        self._share_fetches.role_ended(*key)
        self._purgatory.release_all(key)
