"""The end of a consumer: by its user, with its log, or when its handle was dropped.

It lives as long as the handle. A log closes its consumers by it.
"""

import threading

from pylog.client.cluster import Cluster
from pylog.client.consumer.assignment import CLOSE_MS, Assignment
from pylog.client.consumer.group_member import GroupMember
from pylog.client.consumer.loop_records import LoopRecords
from pylog.client.consumer.pending_requests import PendingRequests
from pylog.client.consumer.single_thread import SingleThread, alone
from pylog.client.consumer.subscription import SubscriptionState
from pylog.config import ConsumerConfig
from pylog.errors import ConcurrentUse


class Ending:
    """Ends one consumer."""

    def __init__(
        self, requests: PendingRequests, cluster: Cluster, subscription: SubscriptionState, config: ConsumerConfig,
        group: GroupMember | None, loop: LoopRecords, assignment: Assignment, turn: SingleThread,
    ) -> None:  # fmt: skip
        self._requests = requests
        self._cluster = cluster
        self._subscription = subscription
        self._config = config
        self._group = group
        self._loop = loop
        self._assignment = assignment
        self._turn = turn

    @alone
    def end(self, reason: str, timeout_ms: int = CLOSE_MS, *, commit: bool = True) -> None:
        """Leave the group, with a commit of the positions where that is automatic. Raises what a listener raises."""
        if self._requests.is_ended:
            return
        if self._group is not None and self._group.is_calling:
            raise ConcurrentUse("a listener must not close its consumer: let the poll that has called it end first")
        self._loop.take_back()
        try:
            self._requests.deliver()
            self._assignment.leave(reason, timeout_ms, commit=commit)
            if commit and self._group is not None and self._config.commits:
                # Of partitions that were assigned by hand.
                self._group.commits.finish(timeout_ms)
        finally:
            self._requests.end()
            if self._group is not None:
                self._group.close()
            self._subscription.assign([])
            self._cluster.release()

    def log_closes(self) -> None:
        """The log is about to close, in whatever thread: end what goes on in this consumer.

        Where another thread has polled last, or a listener closes the log, nothing is committed: the work on the polled
        records may not be done.
        """
        in_listener = self._group is not None and self._group.is_calling
        if self._turn.user in (0, threading.get_ident()) and not in_listener:
            self.end("it was closed")
        else:
            self._go("its log was closed")

    def close_dropped(self) -> None:
        """Leave the group without a commit: the work on the polled records may not have been done."""
        if not self._requests.is_ended:
            self._go("it was dropped")

    def _go(self, reason: str) -> None:
        self._requests.end()
        if self._group is not None:
            self._group.go(reason)
            self._group.close()
        self._cluster.release()
