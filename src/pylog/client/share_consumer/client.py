"""The part of a share consumer that outlives its handle: its parts, and its calls in rounds (`runtime/rounds`)."""

import itertools
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, NoReturn
from uuid import UUID

from pylog.client.cluster import Cluster, checked_names
from pylog.client.consumer.pending_requests import CLOSED, PendingRequest, PendingRequests
from pylog.client.consumer.single_thread import SingleThread
from pylog.client.share_consumer.acknowledgements import Acknowledgements, Place
from pylog.client.share_consumer.fetcher import ShareFetcher
from pylog.client.share_consumer.member import ShareGroupMember
from pylog.client.share_consumer.membership import Slots
from pylog.config.share_consumer import IMPLICIT, ShareConsumerConfig
from pylog.errors import PylogError, Wakeup
from pylog.metrics.snapshot import Metrics
from pylog.protocol.messages.topics import MetadataResponse
from pylog.protocol.topic_names import validate_topic_name
from pylog.record import ShareRecord, TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.closing import Lease, drop, warn
from pylog.runtime.rounds import Rounds
from pylog.runtime.shared_worker import SharedWorker
from pylog.transport import Transport

logger = logging.getLogger("pylog.client")

_numbers = itertools.count(1)

OnAcknowledged = Callable[[dict[TopicPartition, set[int]], PylogError | None], object]
"""What hears of acknowledgements: the offsets by partition, and why they were not taken, or None."""
CLOSE_MS = 30_000
WAIT_MS_MAX = 500
IDLE_LOOK_MS = 1000
"""How often the topics are looked at."""


class ShareConsumerClient:
    """The part of a share consumer that outlives its handle. Its calls are those of `ShareConsumer`."""

    def __init__(
        self, transport: Transport, node: int, config: ShareConsumerConfig, clock: Clock, heartbeats: SharedWorker
    ) -> None:
        self.config = config
        self.requests = requests = PendingRequests(clock, lambda: transport.name(node))
        self.turn = SingleThread()
        self.topics: frozenset[str] = frozenset()
        self._callback: OnAcknowledged | None = None
        self._clock = clock
        self._client_id = client_id = config.client_id or f"share-consumer-{next(_numbers)}"
        self._cluster = cluster = Cluster(
            transport, node, client_id, requests.answer, seconds=config.default_api_timeout_ms / 1000
        )
        self._member = ShareGroupMember(requests, cluster, config, clock, heartbeats)
        self._acknowledgements = Acknowledgements(is_implicit=config.share_acknowledgement_mode == IMPLICIT)
        self._fetcher = ShareFetcher(requests, cluster, config, clock, self._member.member_id, self._acknowledgements)
        self._looking: PendingRequest | None = None
        self._look_ms = 0
        self._seen: dict[str | None, int] | None = None
        """How many partitions each topic had, when they were looked at last."""
        self._known: tuple[object, Slots, dict[TopicPartition, UUID]] = None, {}, {}
        """The view of the cluster and the assignment that were seen last, and the partitions by name."""
        self._is_woken = False

    # --- its topics --------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """See `ShareConsumer.subscribe`."""
        self.requests.check_open()
        names = frozenset(checked_names("topics", topics))
        for name in names:
            validate_topic_name(name)
        if not names:
            raise ValueError("subscribe takes topics; `unsubscribe` is to read nothing")
        self.topics, self._look_ms = names, 0
        self._member.subscribe(names)

    def unsubscribe(self) -> Rounds[None]:
        """See `ShareConsumer.unsubscribe`."""
        self.requests.check_open()
        yield from self._leave(CLOSE_MS)
        self.topics = frozenset()

    def _assigned(self, slots: Slots) -> dict[TopicPartition, UUID]:
        """The partitions to read; a topic that is not known yet is looked up."""
        if self._clock.tick_ms() >= self._look_ms:
            self._look()
        view = self._cluster.view
        known_view, known_slots, assigned = self._known
        if known_view is view and known_slots is slots:
            return assigned
        names = {topic.topic_id: name for name, topic in self._cluster.known().items()}
        if any(topic_id not in names for topic_id in slots):
            self._look()
        assigned = {
            TopicPartition(names[topic_id], number): topic_id
            for topic_id, numbers in slots.items()
            if topic_id in names
            for number in numbers
        }
        self._known = view, slots, assigned
        return assigned

    def _look(self) -> None:
        if self._looking is None:
            wanted = sorted(self.topics)
            future = self._cluster.send_any(self._cluster.question(wanted))
            self._looking = self.requests.add(future, lambda _, answer: self._looked(wanted, answer))

    def _looked(self, wanted: list[str], answer: MetadataResponse | PylogError) -> None:
        self._looking = None
        now_ms = self._clock.tick_ms()
        self._look_ms = now_ms + self.config.retry_backoff_ms
        if isinstance(answer, PylogError):
            return
        topics = self._cluster.learn(answer, wanted)
        self._look_ms = now_ms + min(IDLE_LOOK_MS, self.config.metadata_max_age_ms)
        seen = {topic.name: len(topic.partitions) for topic in topics if topic.error is None}
        if self._seen is not None and self._seen != seen:
            self._member.say_again()
        self._seen = seen

    # --- records -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float, count: int | None) -> Rounds[list[ShareRecord[Any, Any]]]:
        """See `ShareConsumer.poll`."""
        self.requests.check_open()
        if not self.topics:
            raise RuntimeError("this share consumer reads nothing: subscribe to topics first")
        if timeout_ms != timeout_ms:
            raise TypeError(f"timeout_ms is {timeout_ms!r}, not a number of milliseconds")
        self._acknowledgements.settle()
        self._acknowledgements.check_settled()
        return self._poll(timeout_ms, self.config.max_poll_records if count is None else count)

    def _poll(self, timeout_ms: float, count: int) -> Rounds[list[ShareRecord[Any, Any]]]:
        now_ms = self._clock.tick_ms()
        deadline_ms = now_ms + timeout_ms
        was_asked = False
        while True:
            if self._is_woken or self.requests.is_ended:
                self._raise_why_it_ends()
            self.requests.deliver()
            if self._acknowledgements.results:
                self._tell()
            # Heartbeats have a thread of their own: what is there goes out before anything is asked.
            if self._fetcher.has_something:
                records = self._fetcher.take(count)
                if records:
                    return records
            assigned = self._assigned(self._member.step())
            if was_asked and now_ms >= deadline_ms:
                return []
            left_ms = max(0, int(min(deadline_ms - now_ms, self.config.fetch_max_wait_ms)))
            was_asked = self._fetcher.fetch(assigned, left_ms) or was_asked
            self._fetcher.acknowledge()
            if not self.requests.deliver():
                if now_ms >= deadline_ms:
                    return []
                yield min(deadline_ms - now_ms, WAIT_MS_MAX)
            now_ms = self._clock.tick_ms()

    def _raise_why_it_ends(self) -> NoReturn:
        self.requests.check_open()
        self._is_woken = False
        raise Wakeup("wakeup was called")

    def keep(self, records: list[ShareRecord[Any, Any]]) -> None:
        """Give these out again: the caller of a poll did not get them."""
        self._fetcher.keep(records)

    def wakeup(self) -> None:
        """See `ShareConsumer.wakeup`."""
        self._is_woken = True
        self.requests.ring()

    # --- acknowledgements --------------------------------------------------------------------------------------------

    def acknowledge(self, place: Place, name: str) -> None:
        """See `ShareConsumer.acknowledge`."""
        self.requests.check_open()
        self._acknowledgements.acknowledge(place, name)
        if name == "renew":
            self._fetcher.acknowledge()

    def commit(self, timeout_ms: int | None) -> Rounds[dict[TopicPartition, PylogError | None]]:
        """See `ShareConsumer.commit_sync`."""
        self.requests.check_open()
        self._acknowledgements.settle()
        self.requests.deliver()
        self._tell()
        found: dict[TopicPartition, PylogError | None] = {}
        deadline_ms = self._clock.tick_ms() + (self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)
        while True:
            self._fetcher.acknowledge()
            self.requests.deliver()
            for key, error in self._tell().items():
                found[key] = found.get(key) or error
            left_ms = deadline_ms - self._clock.tick_ms()
            if self._acknowledgements.is_done or left_ms <= 0:
                return found
            yield min(left_ms, WAIT_MS_MAX)

    def listen(self, callback: OnAcknowledged | None) -> None:
        """See `ShareConsumer.set_acknowledgement_commit_callback`."""
        if callback is not None and not callable(callback):
            raise TypeError(f"callback is {callback.__class__.__name__}: it cannot be called")
        self._callback = callback

    def commit_in_background(self) -> None:
        """See `ShareConsumer.commit_async`."""
        self.requests.check_open()
        self._acknowledgements.settle()
        self._fetcher.acknowledge()

    def _tell(self) -> dict[TopicPartition, PylogError | None]:
        """Tell the callback what was answered; gives the errors."""
        if not self._acknowledgements.results:
            return {}
        results = self._acknowledgements.take_results()
        for key, (offsets, error) in results.items():
            if self._callback is not None:
                self._callback({key: offsets}, error)
            elif error is not None:
                logger.warning(
                    "%s-%d: %d records were not acknowledged: %s", *key, len(offsets), error, extra=key._asdict()
                )
        return {key: error for key, (_, error) in results.items()}

    # --- the end -----------------------------------------------------------------------------------------------------

    def end(self, timeout_ms: int, *, accepts: bool = True) -> Rounds[None]:
        """Acknowledge, let go of what is left, and leave the group. Raises what the callback raises."""
        if self.requests.is_ended:
            return
        try:
            yield from self._leave(timeout_ms, accepts=accepts)
        finally:
            self.requests.end()
            self._member.close()
            self._cluster.release(CLOSED)

    def _leave(self, timeout_ms: int, *, accepts: bool = True) -> Rounds[None]:
        self._acknowledgements.settle(accepts=accepts)
        self._acknowledgements.drop()
        deadline_ms = self._clock.tick_ms() + timeout_ms
        yield from self._until(lambda: not self._fetcher.is_acknowledging, deadline_ms)
        self._fetcher.end()
        yield from self._until(lambda: not self._fetcher.is_busy, deadline_ms)
        answer = self._member.go()
        while answer is not None and not answer.done() and self._clock.tick_ms() < deadline_ms:
            answer.add_done_callback(self.requests.ring)
            yield min(deadline_ms - self._clock.tick_ms(), WAIT_MS_MAX)
        self._tell()

    def _until(self, is_so: Callable[[], bool], deadline_ms: float) -> Rounds[None]:
        self.requests.deliver()
        while not is_so() and (left_ms := deadline_ms - self._clock.tick_ms()) > 0:
            yield min(left_ms, WAIT_MS_MAX)
            self.requests.deliver()

    def join(self, lease: Lease) -> None:
        """Be closed with the log. Raises Closed where that is closed already."""
        lease.add(self)

    def log_closes(self) -> None:
        """The log is about to close, in whatever thread: where another thread has polled last nothing is accepted, as
        the work on the records may not be done.
        """
        if self.turn.user in (0, threading.get_ident()):
            with self.turn:
                self.requests.run(self.end(CLOSE_MS))
        else:
            self._go()

    def handle_dropped(self, handle: object, lease: Lease) -> None:
        """The handle that programs have is gone: leave the group in the background, with a warning."""
        lease.discard(self)
        if not (self.requests.is_ended or lease.log.closed):
            drop(self, lease.log)
            warn(f"a share consumer of group {self.config.group_id!r} of {lease.log}", handle)

    def close_dropped(self) -> None:
        """Leave the group, and accept nothing: the work on the records may not have been done."""
        if not self.requests.is_ended:
            self._go()

    def _go(self) -> None:
        self.requests.end()
        self._fetcher.go()
        self._member.go()
        self._member.close()
        self._cluster.release(CLOSED)

    def measure(self, found: Metrics) -> None:
        """Add the numbers of now; none after the close, as in Kafka. From any thread."""
        if not self.requests.is_ended:
            self._fetcher.measure(found, self._client_id)
            self._member.measure(found, self._client_id)
