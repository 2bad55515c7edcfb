"""Answers of a node that wait: a Produce until every replica has its records, a Fetch until there is something to read.

    Produce       waits under (partition, "high watermark")    released when that has passed the batch
    Fetch         waits under the first offset it has not seen: below the high watermark, the last stable offset, or
                  (a follower's) the end; released it reads again, and waits again where that is not enough; one of many
                  partitions is read again by the node's worker, after a rest, and not by each append to one of them
    ListOffsets   waits under (partition, "high watermark") where records of open transactions are hidden
    others        wait by `park`, and are told when one of their offsets, or their time, has come (`share_fetch`)

The thread that moves an offset releases; the node's worker expires. Answers are completed outside the lock. Records of
open transactions are not visible before they are durable, for which nothing waits but a reader of uncommitted records:
one that has read all that is visible, or asks where the log ends, has them made durable (`hurry`).
(Kafka: DelayedProduce, DelayedFetch.)
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from pylog.broker.delayed_operations import DelayedOperations
from pylog.broker.fetch import is_enough
from pylog.broker.replica_manager import ReplicaManager
from pylog.errors import NotEnoughReplicasAfterAppend, NotLeaderOrFollower, RequestTimedOut
from pylog.kernel.format import LONG_MAX, OFFSET_MAX
from pylog.partition import Partition
from pylog.protocol.batch import Batch
from pylog.protocol.isolation import Isolation, isolation_of
from pylog.protocol.messages import CONSUMER, NO_EPOCH, Fetch, Fetched, ProducedPart, Session
from pylog.protocol.messages.records import ListOffsetsRequest, ListOffsetsResponse
from pylog.replica import Leader, bounds_part, told_isr
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, completed
from pylog.runtime.signals import WholeLock

T = TypeVar("T")
PARTS_AT_ONCE = 1000
"""How many partitions an append looks at for a Fetch that waits for them."""
PARTS_PER_MS = 100
"""How many partitions are read in a millisecond: as long as a read of more takes, their Fetch rests before it."""
LISTING_MS_MAX = 5000
"""How long a ListOffsets waits at most: then it tells what is visible."""


class Abandonable(Future[T]):
    """An answer that waits in a purgatory, under `tickets`, as long as anybody wants it."""

    __slots__ = ("_purgatory", "is_abandoned", "tickets")

    def __init__(self, purgatory: "Purgatory") -> None:
        super().__init__()
        self._purgatory = purgatory
        self.tickets: dict[int, int] = {}
        self.is_abandoned = False

    def abandon(self) -> None:
        self._purgatory.abandon(self)


class _DelayedProduce(Abandonable[T]):
    """The answer to a Produce. `waiting`: which of its parts are not yet below the high watermark, by index."""

    __slots__ = ("deadline_ms", "is_patient", "leaders", "parts", "produced", "waiting")

    def __init__(
        self, purgatory: "Purgatory", produced: T, parts: list[ProducedPart], leaders: list[Leader | None],
        waiting: set[int], deadline_ms: int, is_patient: bool,
    ) -> None:  # fmt: skip
        super().__init__(purgatory)
        self.produced, self.parts, self.leaders = produced, parts, leaders
        self.waiting, self.deadline_ms = waiting, deadline_ms
        self.is_patient = is_patient


class _DelayedFetch(Abandonable[Fetched]):
    """The answer to a Fetch."""

    __slots__ = ("deadline_ms", "message")

    def __init__(self, purgatory: "Purgatory", message: Fetch, deadline_ms: int) -> None:
        super().__init__(purgatory)
        self.message, self.deadline_ms = message, deadline_ms


class Parked(Abandonable[T], metaclass=ABCMeta):
    """An answer of another kind that waits."""

    __slots__ = ()

    @abstractmethod
    def resume(self) -> None:
        """Answer, or wait again: an offset was reached, the time is up, or the purgatory closes."""


@dataclass(slots=True)
class _DelayedListing:
    answer: Future[ListOffsetsResponse]
    message: ListOffsetsRequest
    hidden: list[tuple[Leader, int]]
    """The partitions with records that are to be visible first, and where these end."""
    deadline_ms: int


_Delayed = _DelayedFetch | _DelayedListing | Parked[Any] | tuple[_DelayedProduce[Any], int]
Wants = list[tuple[Hashable, int]]
"""Keys, with the offsets that are waited for."""


class Purgatory:
    """The answers of one node that wait. Thread-safe.

    `read` (again, where one has waited) and `list_offsets` answer with what there is now, and `given` counts what is
    answered of a Fetch; `wake` is called when `next_deadline` may have become earlier; `hurry`: see `Guarantees.hurry`.
    """

    def __init__(
        self, replica_manager: ReplicaManager, clock: Clock, read: Callable[[Fetch, bool], Fetched],
        given: Callable[[Fetch, Fetched], Fetched], list_offsets: Callable[[ListOffsetsRequest], ListOffsetsResponse],
        wake: Callable[[], object], hurry: Callable[[Leader], int | None],
    ) -> None:  # fmt: skip
        self._roles, self._node_id = replica_manager.roles, replica_manager.id
        self._clock = clock
        self._read = read
        self._given = given
        self._list_offsets = list_offsets
        self._wake = wake
        self._hurry = hurry
        self._delayed: DelayedOperations[_Delayed] = DelayedOperations()
        self._lock = WholeLock()
        self._latest_ms = LONG_MAX
        self.is_closed = False

    @property
    def next_deadline(self) -> int | None:
        """When `expire` has something to do, at the earliest; None while nothing waits."""
        with self._lock:
            return self._delayed.next_deadline

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of Produces, of Fetches and of ShareFetches that wait."""
        with self._lock:
            waiting = list(self._delayed.items.values())
        produces = sum(isinstance(item, tuple) for item in waiting)
        fetches = sum(isinstance(item, _DelayedFetch) for item in waiting)
        return produces, fetches, sum(isinstance(item, Parked) for item in waiting)

    def produce(
        self, produced: T, parts: list[ProducedPart], leaders: list[Leader | None], waiting: set[int],
        deadline_ms: int, *, is_patient: bool = False,
    ) -> Future[T]:  # fmt: skip
        """Answer `produced` when those of its parts that are `waiting` are below their high watermarks, or when the
        time is up; at once where too few replicas are in sync, unless `is_patient`.
        """
        delayed = _DelayedProduce(self, produced, parts, leaders, waiting, deadline_ms, is_patient)
        for index in sorted(waiting):
            self._resume_produce(delayed, index)
        if not delayed.done():
            self._wake()
        return delayed

    def _resume_produce(self, delayed: _DelayedProduce[Any], index: int) -> None:
        """Answer a part, or let it wait (on)."""
        part, leader = delayed.parts[index], delayed.leaders[index]
        assert leader is not None, "only appended records wait"
        topic, number = leader.partition.topic, leader.partition.number
        is_over = self._roles.held(topic, number) is not leader
        is_refused = leader.is_under_min_isr and not delayed.is_patient
        if is_over or is_refused or leader.partition.high_watermark >= part.next_offset:
            self._complete(delayed, index)
            return
        with self._lock:
            if delayed.is_abandoned:
                return
            key = (topic, number, "high watermark")
            deadline_ms = min(delayed.deadline_ms, self._latest_ms)
            delayed.tickets[index] = self._delayed.add((delayed, index), [(key, part.next_offset)], deadline_ms)
        # A follower may have moved it just before the line above, and found nothing to release.
        self.release(leader.partition)

    def fetch(self, message: Fetch, session: Session) -> Future[Fetched]:
        """Answer at once where there is enough; else when there is, or when the time is up, with what there is."""
        fetched = self._read(message, False)
        if is_enough(message, fetched):
            return completed(self._given(message, fetched))
        if message.max_wait_ms <= 0:
            self._hurry_for(message, fetched)
            return completed(self._given(message, fetched))
        delayed = _DelayedFetch(self, message, self._clock.tick_ms() + message.max_wait_ms)
        self._delay_fetch(delayed, fetched)
        return delayed

    def abandon(self, delayed: Abandonable[T]) -> None:
        """Let a request go whose client has left: it would be looked at with each append, until its time is up."""
        with self._lock:
            delayed.is_abandoned = True
            for ticket in delayed.tickets.values():
                self._delayed.remove(ticket)

    def _delay_fetch(self, delayed: _DelayedFetch, fetched: Fetched) -> None:
        """Let a fetch wait for the next record it may see: below the high watermark or the last stable offset, or at
        the end for a follower.
        """
        committed = delayed.message.isolation is Isolation.READ_COMMITTED
        wants: Wants = []
        for asked, part in zip(delayed.message.parts, fetched.parts, strict=False):
            if committed:
                wants.append(((part.topic, part.partition, "last stable offset"), part.last_stable_offset + 1))
            else:
                wants.append(((part.topic, part.partition, "high watermark"), part.high_watermark + 1))
            if delayed.message.replica_id != CONSUMER:
                wants.append(((part.topic, part.partition, "end"), asked.offset + 1))
        if not self._add(delayed, wants, delayed.deadline_ms):
            return
        for part in fetched.parts:
            # An append since the read has found nothing to release.
            role = self._roles.held(part.topic, part.partition)
            if role is not None:
                self.release(role.partition)
        self._hurry_for(delayed.message, fetched)
        self._wake()

    def _hurry_for(self, message: Fetch, fetched: Fetched) -> None:
        """A fetch has read all that is visible: let it have what was left, too."""
        if message.replica_id == CONSUMER and message.isolation is Isolation.READ_UNCOMMITTED:
            for part in fetched.parts:
                role = self._roles.held(part.topic, part.partition)
                if isinstance(role, Leader):
                    self._hurry(role)

    def park(self, parked: Parked[T], wants: Wants, deadline_ms: int) -> bool:
        """Let an answer wait, unless its client has left; gives whether it does."""
        is_waiting = self._add(parked, wants, deadline_ms)
        self._wake()
        return is_waiting

    def unpark(self, parked: Parked[T]) -> bool:
        """Let an answer wait no more; False where it is resumed already."""
        with self._lock:
            return self._delayed.remove(parked.tickets[0])

    def tell(self, key: Hashable) -> None:
        """Resume what is parked for this key."""
        if self._delayed.items:
            with self._lock:
                parked = self._delayed.reached((key, OFFSET_MAX))
            for item in parked:
                self._resume(item)

    def is_awaited(self, partition: Partition) -> bool:
        """Whether a reader waits until more of a partition is visible."""
        if not self._delayed.items:
            return False
        with self._lock:
            return self._delayed.has((partition.topic, partition.number, "high watermark"))

    def list_offsets(self, message: ListOffsetsRequest, session: Session) -> Future[ListOffsetsResponse]:
        """Answer at once, or when what was left of open transactions is visible to a reader of uncommitted records."""
        if message.replica_id == CONSUMER and isolation_of(message.isolation_level) is Isolation.READ_UNCOMMITTED:
            hidden = []
            for key, _ in message.keyed():
                role = self._roles.held(*key)
                end = self._hurry(role) if isinstance(role, Leader) else None
                if isinstance(role, Leader) and end is not None:
                    hidden.append((role, end))
            if hidden:
                delayed = _DelayedListing(Future(), message, hidden, self._clock.tick_ms() + LISTING_MS_MAX)
                self._delay_listing(delayed)
                return delayed.answer
        return completed(self._list_offsets(message))

    def _delay_listing(self, delayed: _DelayedListing) -> None:
        delayed.hidden = [one for one in delayed.hidden if self._is_hidden(*one)]
        if not delayed.hidden or self.is_closed or self._clock.tick_ms() >= delayed.deadline_ms:
            delayed.answer.set_result(self._list_offsets(delayed.message))
            return
        keys = [((one.partition.topic, one.partition.number, "high watermark"), end) for one, end in delayed.hidden]
        with self._lock:
            self._delayed.add(delayed, list(keys), delayed.deadline_ms)
        for leader, _ in delayed.hidden:
            # It may have moved just before.
            self.release(leader.partition)
        self._wake()

    def _is_hidden(self, leader: Leader, end: int) -> bool:
        partition = leader.partition
        is_there = self._roles.held(partition.topic, partition.number) is leader
        return is_there and partition.high_watermark < end and not partition.failed

    def _resume_fetch(self, delayed: _DelayedFetch) -> None:
        fetched = self._read(delayed.message, True)
        if is_enough(delayed.message, fetched) or self.is_closed or self._clock.tick_ms() >= delayed.deadline_ms:
            delayed.set_result(self._given(delayed.message, fetched))
        else:
            self._delay_fetch(delayed, fetched)

    def _rest(self, delayed: _DelayedFetch) -> None:
        """Leave a fetch of many partitions to the worker."""
        rested_ms = self._clock.tick_ms() + len(delayed.message.parts) // PARTS_PER_MS
        if self._add(delayed, [], min(rested_ms, delayed.deadline_ms)):
            self._wake()

    def _add(self, delayed: _DelayedFetch | Parked[Any], wants: Wants, deadline_ms: int) -> bool:
        """Let an answer wait, unless its client has left."""
        with self._lock:
            if not delayed.is_abandoned:
                delayed.tickets[0] = self._delayed.add(delayed, wants, deadline_ms)
            return not delayed.is_abandoned

    def release(self, partition: Partition, last: Batch | None = None) -> None:
        """Answer the requests that wait for offsets that `partition` has reached. `last` was just appended, and is
        visible: a consumer that needs no more gets it, and nothing is read.
        """
        if self._delayed.items:
            key = partition.topic, partition.number
            high, stable = partition.high_watermark, partition.last_stable_offset
            for item in self._reached(key, high, stable, partition.next_offset):
                if isinstance(item, _DelayedFetch) and len(item.message.parts) > PARTS_AT_ONCE:
                    self._rest(item)
                elif last is None or not self._gave(item, last, partition):
                    self._resume(item)

    def release_followers(self, partition: Partition) -> None:
        """Answer the followers that wait for what was appended: it is not durable, and nothing more is visible.

        No other request is looked at: the caller drives a group, and a callback of its own might append.
        """
        if self._delayed.items:
            with self._lock:
                fetches = self._delayed.reached(((partition.topic, partition.number, "end"), partition.next_offset))
            for item in fetches:
                assert isinstance(item, _DelayedFetch), "followers alone wait for the end"
                if len(item.message.parts) > PARTS_AT_ONCE:
                    self._rest(item)
                else:
                    self._resume_fetch(item)

    def release_all(self, key: tuple[str, int]) -> None:
        """Look again at every request that waits for a partition: this node's role for it is over, or another one."""
        for item in self._reached(key, OFFSET_MAX, OFFSET_MAX, OFFSET_MAX):
            self._resume(item)

    def _reached(self, key: tuple[str, int], high_watermark: int, stable: int, end: int) -> list[_Delayed]:
        with self._lock:
            return self._delayed.reached(
                ((*key, "high watermark"), high_watermark), ((*key, "last stable offset"), stable), ((*key, "end"), end)
            )

    def _resume(self, item: _Delayed) -> None:
        if isinstance(item, _DelayedFetch):
            self._resume_fetch(item)
        elif isinstance(item, Parked):
            item.resume()
        elif isinstance(item, _DelayedListing):
            self._delay_listing(item)
        else:
            self._resume_produce(*item)

    def _gave(self, item: _Delayed, batch: Batch, partition: Partition) -> bool:
        """Answer a consumer that waits for this batch and no more with it; False for any other request.

        After a last record of an older epoch the log may have been cut below it. Where the role is another one by now,
        the batch is of a topic that was deleted, or of a log that lies elsewhere. Both take a read.
        """
        if not isinstance(item, _DelayedFetch):
            return False
        message, asked = item.message, item.message.parts[0]
        role = self._roles.held(asked.topic, asked.partition)
        if (
            asked.offset != batch.base_offset
            or asked.last_fetched_epoch not in (NO_EPOCH, batch.leader_epoch)
            or message.replica_id != CONSUMER
            or len(message.parts) > 1
            or batch.size < min(message.min_bytes, message.max_bytes)
            or role is None
            or role.partition is not partition
        ):
            return False
        part = bounds_part(partition, asked)
        part.data = memoryview(batch.data)
        item.set_result(self._given(message, Fetched([part])))
        return True

    def _complete(self, delayed: _DelayedProduce[Any], index: int) -> None:
        part, leader = delayed.parts[index], delayed.leaders[index]
        assert leader is not None, "only appended records wait"
        topic, number = leader.partition.topic, leader.partition.number
        if part.error is None and self._roles.held(topic, number) is not leader:
            # The offset was reached, but perhaps with another leader's records.
            part.error = NotLeaderOrFollower(
                f"{topic}-{number}: node {self._node_id} lost the lead before offset {part.base_offset} "
                "was on every replica; whether the records stay is for the new leader to say"
            )
        elif part.error is None and leader.partition.high_watermark < part.next_offset:
            part.error = NotEnoughReplicasAfterAppend(
                f"{topic}-{number}: offset {part.base_offset} is in the leader's log, and followers have "
                f"left the ISR since: {told_isr(leader)}"
            )
        with self._lock:
            delayed.waiting.discard(index)
            last = not delayed.waiting
        if last:
            delayed.set_result(delayed.produced)

    def expire(self, now_ms: int) -> None:
        """Answer the requests whose time is up."""
        with self._lock:
            expired = self._delayed.expired(now_ms)
        self._expire(expired)

    def _expire(self, items: list[_Delayed]) -> None:
        for item in items:
            if not isinstance(item, tuple):
                self._resume(item)
                continue
            delayed, index = item
            part = delayed.parts[index]
            leader = delayed.leaders[index]
            assert leader is not None, "only appended records wait"
            topic, number = leader.partition.topic, leader.partition.number
            missing = leader.waits_for(part.next_offset)
            told = f": followers {missing} have not said that they have it" if missing else ""
            part.error = RequestTimedOut(
                f"{topic}-{number}: offset {part.base_offset} is in the leader's log, but not on every "
                f"replica yet{told}"
            )
            self._complete(delayed, index)

    def hurry(self, deadline_ms: int) -> None:
        """Let no Produce wait longer than until `deadline_ms`, whatever it asked for: a close is under way."""
        with self._lock:
            self._latest_ms = deadline_ms
            self._delayed.hasten(deadline_ms)
        self._wake()

    def close(self) -> None:
        """Answer every request with what there is; later ones do not wait."""
        self.is_closed = True
        with self._lock:
            waiting = self._delayed.drain()
        self._expire(waiting)
