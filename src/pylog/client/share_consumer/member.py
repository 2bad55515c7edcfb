"""The host of a `ShareMembership`: sends its heartbeats, in a poll and between polls, and tells it the answers.

The machine is entered under a lock; messages are sent outside of it. An answer is heard in the thread that brings it.
"""

from functools import partial

from pylog.client.cluster import Cluster
from pylog.client.consumer.pending_requests import PendingRequests
from pylog.client.share_consumer.membership import ShareMembership, Slots
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.errors import PylogError
from pylog.metrics import table
from pylog.metrics.snapshot import Metrics
from pylog.protocol.messages.share import ShareGroupHeartbeatRequest
from pylog.runtime.clock import Clock
from pylog.runtime.future import failed
from pylog.runtime.shared_worker import SharedWorker
from pylog.runtime.signals import WholeLock
from pylog.transport import PendingAnswer


class ShareGroupMember:
    """The membership of one share consumer. Heartbeats go on while it is open, however long a poll is away: what is
    locked for a member that does not go on comes free by itself.
    """

    def __init__(
        self, requests: PendingRequests, cluster: Cluster, config: ShareConsumerConfig, clock: Clock,
        heartbeats: SharedWorker,
    ) -> None:  # fmt: skip
        assert config.group_id is not None, "it was checked"
        self._requests = requests
        self._cluster = cluster
        self._clock = clock
        self._node = cluster.coordinator("group", config.group_id)
        self._machine = ShareMembership(
            config.group_id, config.client_rack, config.retry_backoff_ms, clock.tick_ms()
        )  # fmt: skip
        self._heartbeats_sent = 0
        self._lock = WholeLock()
        self._heartbeats = heartbeats.shift(self._due, self._tick)

    @property
    def member_id(self) -> str:
        """Its id in the group, and in share sessions."""
        return self._machine.member_id

    def subscribe(self, topics: frozenset[str]) -> None:
        """Want these topics, from the next `step` on."""
        with self._lock:
            self._machine.subscribe(topics)

    def say_again(self) -> None:
        """Let the coordinator look at the topics again."""
        with self._lock:
            self._machine.say_again()

    def step(self) -> Slots:
        """Join, or send the heartbeat that is due; gives the partitions to read now. Raises the error for which the
        group does not take this consumer, and ThreadsExhausted.
        """
        self._heartbeats.begin()
        with self._lock:
            failure, self._machine.failure = self._machine.failure, None
            message = self._machine.message(self._clock.tick_ms(), polls=True) if failure is None else None
        if failure is not None:
            raise failure.with_traceback(None)
        if message is not None:
            self._send(message)
        return self._machine.assigned

    def _send(self, message: ShareGroupHeartbeatRequest) -> PendingAnswer:
        self._heartbeats_sent += 1
        try:
            future = self._cluster.send(self._node, message)
        except PylogError as error:
            future = failed(error)
        future.add_done_callback(partial(self._answered, message))
        return future

    def _answered(self, message: ShareGroupHeartbeatRequest, future: PendingAnswer) -> None:
        error = future.exception(0)
        with self._lock:
            self._machine.answered(
                message, error if isinstance(error, PylogError) else future.result(0), self._clock.tick_ms()
            )
        self._requests.ring()
        self._heartbeats.wake()

    def _due(self) -> int | None:
        with self._lock:
            return self._machine.due_ms

    def _tick(self) -> None:
        with self._lock:
            message = self._machine.message(self._clock.tick_ms(), polls=False)
        if message is not None:
            self._send(message)

    def measure(self, found: Metrics, client_id: str) -> None:
        """Add the numbers of now."""
        found.add(table.SHARE_HEARTBEATS, self._heartbeats_sent, client_id=client_id)
        found.add(table.SHARE_REBALANCES, self._machine.rebalances, client_id=client_id)

    def go(self) -> PendingAnswer | None:
        """Leave the group; gives the answer to come, if there is something to leave. From any thread."""
        with self._lock:
            message = self._machine.leave()
        return None if message is None else self._send(message)

    def close(self) -> None:
        """Send no heartbeats any more."""
        self._heartbeats.close()
