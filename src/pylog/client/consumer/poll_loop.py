"""A poll of a consumer: round after round (`runtime/rounds`), until there are records or the time is up.

the topics       what may be read by now                    assignment
the answers      of the requests in flight                  pending_requests
the group        a step of joining, an automatic commit     group_member, commit
the records      what was fetched: the end of the poll      subscription
the questions    for positions, then for more records       offsets, fetcher
the wait         for the first of many events               the `yield`
"""

from typing import NoReturn

from pylog.client.cluster import Cluster
from pylog.client.consumer.assignment import Assignment
from pylog.client.consumer.fetcher import Fetcher
from pylog.client.consumer.group_member import GroupMember
from pylog.client.consumer.loop_records import LoopRecords
from pylog.client.consumer.offsets import OffsetFetcher
from pylog.client.consumer.pending_requests import PendingRequests
from pylog.client.consumer.subscription import Polled, SubscriptionState
from pylog.config import ConsumerConfig
from pylog.errors import ConcurrentUse, Wakeup
from pylog.runtime.clock import Clock
from pylog.runtime.rounds import Rounds

WAIT_MS_MAX = 500
IDLE_LOOK_MS = 1000
"""How often the topics are looked at while there is nothing else to do."""


class PollLoop:
    """The polls of one consumer."""

    def __init__(
        self, requests: PendingRequests, cluster: Cluster, subscription: SubscriptionState, config: ConsumerConfig,
        clock: Clock, group: GroupMember | None, loop: LoopRecords, assignment: Assignment, offsets: OffsetFetcher,
    ) -> None:  # fmt: skip
        self._requests = requests
        self._subscription = subscription
        self._config = config
        self._clock = clock
        self._group = group
        self._loop = loop
        self._assignment = assignment
        self._offsets = offsets
        self._fetcher = Fetcher(requests, cluster, subscription, config, clock, offsets)
        self._is_woken = False

    @property
    def fetches(self) -> int:
        """The number of fetches that were sent."""
        return self._fetcher.fetches

    def poll(self, timeout_ms: float, max_records: int | None) -> Rounds[list[Polled]]:
        """See `Consumer.poll`."""
        if not (self._subscription.states or self._subscription.is_by_topic):
            raise RuntimeError("this consumer reads nothing: subscribe to topics, or assign partitions, first")
        self._loop.take_back()
        count = self._config.max_poll_records if max_records is None else max_records
        if type(count) is not int:
            raise TypeError(f"max_records is {type(count).__name__}, not int or None")
        if count < 1:
            raise ValueError(f"max_records={count}: at least 1")
        if not isinstance(timeout_ms, int | float):
            raise TypeError(f"timeout_ms is {type(timeout_ms).__name__}, not a number of milliseconds")
        if timeout_ms != timeout_ms:
            raise ValueError("timeout_ms is not a number")
        if self._group is not None and self._group.is_calling:
            raise ConcurrentUse("a listener must not poll: the poll that has called it has not ended")
        return self._poll(timeout_ms, count)

    def _poll(self, timeout_ms: float, count: int) -> Rounds[list[Polled]]:
        subscription, group = self._subscription, self._group
        subscription.stuck = None
        now = self._clock.tick_ms()
        deadline = now + timeout_ms
        asked = False
        self._assignment.look(now, self._config.metadata_max_age_ms)
        while True:
            if self._is_woken or self._requests.is_ended:
                self._raise_why_it_ends()
            self._requests.deliver()
            if group is not None:
                if subscription.is_shared:
                    yield from group.step(now)
                group.commits.auto(now)
            records = subscription.take(count)
            if records or (asked and now >= deadline):
                return records
            self._assignment.look(now, max(1, min(IDLE_LOOK_MS, self._config.metadata_max_age_ms)))
            self._assignment.begin_made_again()
            self._offsets.ask(now)
            left_ms = max(0, int(min(deadline - now, self._config.fetch_max_wait_ms)))
            asked = self._fetcher.ask(left_ms, now) or asked
            if not self._requests.deliver():
                if now >= deadline:
                    return subscription.take(count)  # nothing, but it raises what asking has come to
                yield min(deadline - now, WAIT_MS_MAX, *self._assignment.rests_ms(now))
            now = self._clock.tick_ms()

    def _raise_why_it_ends(self) -> NoReturn:
        self._requests.check_open()
        self._is_woken = False
        raise Wakeup("wakeup was called")

    def wakeup(self) -> None:
        """Let the poll in progress, or the next one, raise Wakeup. From any thread, and from a signal handler."""
        self._is_woken = True
        self._requests.ring()
