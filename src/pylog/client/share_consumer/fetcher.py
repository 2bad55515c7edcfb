"""The share sessions of a share consumer with the leaders of its partitions.

A node has one request of a session at a time: a ShareFetch where records are wanted, with acknowledgements, or a
ShareAcknowledge. Records that were acquired wait in `ready`, each until its lock ends: then another member may
have it, and it is not given any more. (Kafka: ShareConsumeRequestManager, ShareFetchCollector)
"""

from collections import deque
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any
from uuid import UUID

from pylog.client.cluster import Cluster
from pylog.client.consumer.fetcher import deserializing
from pylog.client.consumer.leader_lookup import QUIET
from pylog.client.consumer.pending_requests import PendingRequest, PendingRequests
from pylog.client.share_consumer.acknowledgements import Acknowledgements, Types
from pylog.client.share_consumer.acquired import AcquiredBatches
from pylog.client.share_consumer.session import ENDED, LeaderSession
from pylog.config.share_consumer import RECORD_LIMIT, ShareConsumerConfig
from pylog.errors import DeserializationError, NetworkError, PylogError, ShareSessionNotFound, UnknownTopicOrPartition
from pylog.metrics import table
from pylog.metrics.histogram import Times
from pylog.metrics.snapshot import Metrics
from pylog.protocol.messages.share import RELEASE, ShareAcknowledgeResponse, SharedPartition, ShareFetchResponse
from pylog.record import ConsumerRecord, ShareRecord, TopicPartition
from pylog.runtime.clock import Clock

NO_PARTITIONS: AbstractSet[SharedPartition] = frozenset()
_new: Any = tuple.__new__
_fields = attrgetter(*ShareRecord._fields[:-1])
PASSING = (*QUIET, *ENDED, NetworkError, UnknownTopicOrPartition)
"""Errors that go by themselves: the partitions are looked for again."""


@dataclass(slots=True)
class _Ready:
    """Records of one partition that were acquired, each with its delivery count, and not given to the program yet."""

    key: TopicPartition
    node: int
    part: SharedPartition
    until_ms: int
    records: list[tuple[ConsumerRecord, int]]

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record, _ in self.records]

    def of(self, records: list[tuple[ConsumerRecord, int]]) -> "_Ready":
        """These records of it."""
        return replace(self, records=records)


class ShareFetcher:
    """The sessions of one share consumer."""

    def __init__(
        self, requests: PendingRequests, cluster: Cluster, config: ShareConsumerConfig, clock: Clock, member_id: str,
        acknowledgements: Acknowledgements,
    ) -> None:  # fmt: skip
        self._requests = requests
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._member_id = member_id
        self._acknowledgements = acknowledgements
        self._deserialize = deserializing(config)
        self._sessions: dict[int, LeaderSession] = {}
        self._ready: deque[_Ready] = deque()
        self._given: list[_Ready] = []
        """What the last `take` gave."""
        self._errors: deque[PylogError] = deque()
        self._batches: dict[TopicPartition, AcquiredBatches] = {}
        self._last_node = -1
        """The node that was asked last, where they are asked in turn."""
        self._names: dict[int, str] = {}
        self._placed: tuple[Mapping[TopicPartition, UUID], dict[int, AbstractSet[SharedPartition]]] = {}, {}
        """The assignment that was seen last, and the partitions of each leader."""
        self.acquired = 0
        """How many records were acquired."""
        self.bytes = self.fetches = 0
        """How many bytes were fetched, by how many requests."""
        self._times = Times()

    # --- what the program gets ---------------------------------------------------------------------------------------

    @property
    def has_something(self) -> bool:
        """True if there is a record to give, or an error to raise."""
        return bool(self._ready or self._errors)

    def take(self, count: int) -> list[ShareRecord[Any, Any]]:
        """Up to `count` records, which the program has from now on. Raises the error of an answer, and
        DeserializationError: its record comes free, unless it is acknowledged otherwise.
        """
        if self._errors:
            raise self._errors.popleft().with_traceback(None)
        taken: list[ShareRecord[Any, Any]] = []
        given: list[_Ready] = []
        now_ms = self._clock.tick_ms()
        try:
            while self._ready and len(taken) < count:
                one = self._ready.popleft()
                if one.until_ms <= now_ms:
                    continue
                left = count - len(taken)
                if len(one.records) > left:
                    self._ready.appendleft(one.of(one.records[left:]))
                    one = one.of(one.records[:left])
                given.append(one)
                self._make(one, taken)
        except DeserializationError:
            self._set_aside(given, len(taken))
            if not taken:
                raise
        except BaseException:
            self._ready.extendleft(reversed(given))
            raise
        for one in given:
            self._acknowledgements.give(one.key, one.node, one.part, one.offsets)
        self._given = given
        return taken

    def _make(self, one: _Ready, taken: list[ShareRecord[Any, Any]]) -> None:
        """Add the records as the program gets them. Raises DeserializationError, and what deserializers raise."""
        if self._deserialize is None:
            taken += [_new(ShareRecord, (*_fields(record), count)) for record, count in one.records]
            return
        for record, count in one.records:
            taken.append(_new(ShareRecord, (*_fields(self._deserialize(record)), count)))

    def _set_aside(self, given: list[_Ready], made: int) -> None:
        """So many of these were made; the next one cannot be. What stands before it goes out first."""
        last = given.pop()
        made -= sum(len(one.records) for one in given)
        if made:
            given.append(last.of(last.records[:made]))
        if not given:
            poison = last.of(last.records[:1])
            self._acknowledgements.give(poison.key, poison.node, poison.part, poison.offsets, RELEASE)
            made = 1
        if made < len(last.records):
            self._ready.appendleft(last.of(last.records[made:]))

    def keep(self, records: list[ShareRecord[Any, Any]]) -> None:
        """Give these out again later: the program did not get them."""
        left = len(records)
        while left > 0 and self._given:
            one = self._given.pop()
            back = one.of(one.records[-left:])
            self._acknowledgements.take_back(back.key, back.offsets)
            self._ready.appendleft(back)
            left -= len(back.records)

    # --- what is asked -----------------------------------------------------------------------------------------------

    def fetch(self, assigned: Mapping[TopicPartition, UUID], max_wait_ms: int) -> bool:
        """Ask each leader of these partitions for records, unless there are some; whether it was asked, or is."""
        now_ms, by_node, asked = self._clock.tick_ms(), self._by_node(assigned), False
        for node in self._in_turn(
            by_node.keys() | {one for one, session in self._sessions.items() if session.partitions}, now_ms
        ):
            session, wanted = self._session(node), by_node.get(node, NO_PARTITIONS)
            if not (wanted or session.partitions):
                continue
            if not session.is_busy and now_ms >= session.retry_ms:
                acks = {} if session.is_new else self._acknowledgements.take(node)
                message = session.fetch(wanted, acks, max_wait_ms)
                self.fetches += 1
                self._send(node, message, acks, max_wait_ms)
            asked |= session.is_busy
        return asked

    def _by_node(self, assigned: Mapping[TopicPartition, UUID]) -> dict[int, AbstractSet[SharedPartition]]:
        """The partitions that each leader has. Another view of the cluster comes with another assignment."""
        seen, placed = self._placed
        if seen is assigned:
            return placed
        found: dict[int, set[SharedPartition]] = {}
        is_whole = True
        for key, topic_id in assigned.items():
            self._names[topic_id.int] = key.topic
            node = self._cluster.known_leader(key)
            if node is None:
                self._cluster.renew(key.topic)
                is_whole = False
            else:
                found.setdefault(node, set()).add(SharedPartition.of(topic_id, key.partition))
        for key in self._batches.keys() - assigned.keys():
            del self._batches[key]
        placed = {**found}
        if is_whole:
            self._placed = assigned, placed
        return placed

    def _in_turn(self, nodes: Collection[int], now_ms: int) -> Collection[int]:
        """The nodes to ask now. With share_acquire_mode="record_limit" one is asked after the other: records of others
        would wait here, locked, for a program that takes one at a time. (Kafka: fetchRecordsNodeId)
        """
        if len(nodes) == 1 or self._config.share_acquire_mode != RECORD_LIMIT:
            return nodes
        if busy := {node for node in nodes if self._session(node).is_busy}:
            return busy
        ready = sorted(node for node in nodes if now_ms >= self._session(node).retry_ms)
        if not ready:
            return set()
        self._last_node = next((node for node in ready if node > self._last_node), ready[0])
        return {self._last_node}

    def acknowledge(self) -> None:
        """Send what is to be acknowledged to the nodes that are not busy."""
        for node in list(self._acknowledgements.outgoing):
            session = self._session(node)
            if session.is_busy:
                continue
            out = self._acknowledgements.outgoing[node]
            renews = bool(out.renewals)
            acks = self._acknowledgements.take(node, renews=renews)
            if session.is_new:
                gone = ShareSessionNotFound("the share session has ended meanwhile: these are delivered again")
                self._acknowledgements.answered(acks, dict.fromkeys(acks, gone))
            elif acks:
                self._send(node, session.acknowledge(acks, renews=renews), acks)

    def end(self) -> None:
        """End the sessions that wait for no acknowledgement, with what is to be acknowledged; all else comes free."""
        self._ready.clear()
        for node, session in self._sessions.items():
            if session.may_end:
                acks = self._acknowledgements.take(node)
                self._send(node, session.acknowledge(acks, is_final=True), acks)

    def go(self) -> None:
        """End the sessions, without acknowledgements, and wait for nothing. From any thread."""
        for node, session in list(self._sessions.items()):
            if session.is_busy or not session.is_new:
                with suppress(PylogError):
                    self._cluster.send(node, session.acknowledge({}, is_final=True))

    @property
    def is_busy(self) -> bool:
        """True if a request is under way."""
        return any(session.is_busy for session in self._sessions.values())

    @property
    def is_acknowledging(self) -> bool:
        """True if a request is under way that waits for no records."""
        return any(session.is_busy and not session.is_polling for session in self._sessions.values())

    def _session(self, node: int) -> LeaderSession:
        session = self._sessions.get(node)
        if session is None:
            session = self._sessions[node] = LeaderSession(self._config, self._member_id)
        return session

    def _send(self, node: int, message: Any, acks: Mapping[SharedPartition, Types], wait_ms: int = 0) -> None:
        then = partial(self._answered, node, acks, self._clock.tick_ms())
        self._requests.add(self._cluster.send(node, message), then, wait_ms)

    # --- what is answered --------------------------------------------------------------------------------------------

    def _answered(
        self, node: int, acks: Mapping[SharedPartition, Types], sent_ms: int, _: PendingRequest, answer: Any
    ) -> None:  # fmt: skip
        session = self._sessions[node]
        error = answer if isinstance(answer, PylogError) else answer.error
        session.answered(error)
        if error is not None:
            self._acknowledgements.answered(acks, dict.fromkeys(acks, error))
            self._refused(session, error)
        elif isinstance(answer, ShareFetchResponse):
            self._received(node, session, acks, sent_ms, answer)
        else:
            assert isinstance(answer, ShareAcknowledgeResponse), "there are two kinds of requests"
            errors = {
                SharedPartition.of(one.topic_id, part.partition_index): part.error
                for one in answer.responses
                for part in one.partitions
            }
            self._acknowledgements.answered(acks, errors)
            for one, failure in errors.items():
                self._heard(one, failure)

    def measure(self, found: Metrics, client_id: str) -> None:
        """Add the numbers of now."""
        for metric, number in (
            (table.SHARE_RECORDS, self.acquired), (table.SHARE_BYTES, self.bytes), (table.SHARE_FETCHES, self.fetches),
            (table.SHARE_ACKNOWLEDGEMENTS, self._acknowledgements.sent),
            (table.SHARE_ACKNOWLEDGEMENT_ERRORS, self._acknowledgements.refused),
        ):  # fmt: skip
            found.add(metric, number, client_id=client_id)
        found.add(table.SHARE_FETCH_LATENCY, self._times.histogram, client_id=client_id)

    def _refused(self, session: LeaderSession, error: PylogError) -> None:
        session.retry_ms = self._clock.tick_ms() + self._config.retry_backoff_ms
        if not isinstance(error, PASSING):
            self._errors.append(error)

    def _heard(self, part: SharedPartition, error: PylogError | None) -> None:
        name = self._names.get(part.topic)
        if error is not None and name is not None:
            self._cluster.heard(TopicPartition(name, part.partition), error)

    def _received(
        self, node: int, session: LeaderSession, acks: Mapping[SharedPartition, Types], sent_ms: int,
        answer: ShareFetchResponse,
    ) -> None:  # fmt: skip
        errors: dict[SharedPartition, PylogError | None] = {}
        self._times.add((self._clock.tick_ms() - sent_ms) * 1_000_000)
        # Not before the request was sent: an answer may have lain in the socket while this process stood still.
        until_ms = sent_ms + answer.acquisition_lock_timeout_ms
        for topic in answer.responses:
            name = self._names.get(topic.topic_id.int)
            for part in topic.partitions:
                place = SharedPartition(topic.topic_id.int, part.partition_index)
                errors[place] = part.acknowledge_error if part.acknowledge_error_code else None
                if part.error is not None:
                    self._heard(place, part.error)
                    self._refused(session, part.error)
                elif name is not None and part.acquired_records:
                    self._acquired(TopicPartition(name, part.partition_index), node, place, part, until_ms)
        self._acknowledgements.answered(acks, errors)

    def _acquired(self, key: TopicPartition, node: int, place: SharedPartition, part: Any, until_ms: int) -> None:
        data = memoryview(b"") if part.records is None else part.records
        batches = self._batches.get(key)
        if batches is None:
            batches = self._batches[key] = AcquiredBatches(key, self._config)
        records, gaps, error = batches.found(data, part.acquired_records)
        self.acquired += len(records)
        self.bytes += len(data)
        if records:
            self._ready.append(_Ready(key, node, place, until_ms, records))
        if gaps:
            self._acknowledgements.add(node, place, gaps)
        if error is not None:
            self._errors.append(error)
