"""The records of share groups on one node: ShareFetch and ShareAcknowledge, and the ends of sessions and of locks.

    ShareFetch        its acknowledgements, then records of the session's partitions; it waits for `max_wait_ms` until
                      there are `min_bytes` of them: parked in the purgatory under what a partition shows next, and
                      under what its share partition has again
    ShareAcknowledge  acknowledgements alone
    the last request of a session, or the end of its connection: what the member has is free again

A share partition is here as long as this node leads the partition and somebody's session has it: what is written down
of it is all that counts. (Kafka: SharePartitionManager, DelayedShareFetch, KafkaApis.handleShareFetchRequest.)
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pylog.broker.describe import unknown_partition
from pylog.broker.purgatory import Parked, Purgatory, Wants
from pylog.broker.replica_manager import ReplicaManager
from pylog.broker.share_configs import ShareConfig, ShareConfigs
from pylog.broker.share_counts import ShareCounts, measure_host
from pylog.broker.share_partition_host import READ_BYTES, Ask, Portion, SharePartitionHost
from pylog.broker.share_requests import (
    NOTHING_ACQUIRED,
    Errors,
    Said,
    acknowledged_response,
    check_renewal,
    check_said,
    fetched_response,
    forgotten_in,
    member_of,
    named_in,
)
from pylog.broker.share_sessions import MemberKey, ShareSession, ShareSessions
from pylog.coordinator.share.share_partition import Wanted
from pylog.coordinator.share.standing import Standing
from pylog.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    ProtocolError,
    PylogError,
    ShareSessionLimitReached,
    ShareSessionNotFound,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pylog.kernel.format import OFFSET_MAX
from pylog.metrics import table
from pylog.metrics.snapshot import Metrics
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import ClientGone, Session
from pylog.protocol.messages.share import (
    FINAL_EPOCH,
    NEW_SESSION,
    RECORD_LIMIT,
    LeaderIdAndEpoch,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    SharedPartition,
    ShareFetchRequest,
    ShareFetchResponse,
)
from pylog.record import TopicPartition
from pylog.replica import Leader
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, completed, gathered
from pylog.runtime.signals import WholeLock

Portions = dict[SharedPartition, Portion]
T = TypeVar("T")
NOT_HERE: Future[Any] = completed(None)
"""The answer to a request that has to wait for the disk, in a thread that may not."""
NOTHING_SAID: Future[Errors] = completed({})
FEW_PARTS, QUICK_BYTES = 100, 128 << 10
"""How many partitions a session has, and how many bytes are read of each, that a thread looks at which may not wait."""
LOST_MAX = 1000
"""How many connections that have ended are remembered, as their last requests may come later."""


@dataclass(slots=True)
class _Wish:
    """A ShareFetch, as far as it is about records."""

    session: ShareSession
    parts: list[SharedPartition]
    records: int
    batch_size: int
    is_strict: bool
    min_bytes: int
    max_bytes: int
    isolation: Isolation
    deadline_ms: int


class ShareFetches:
    """The share sessions and share partitions of one node. Thread-safe. `ask` sends a message to a share coordinator,
    who may have to wait for the disk where `may_block` says so; `wake` hears when `work` has something to do; `given`
    counts what members get, and `hurry`: see `Guarantees.hurry`.
    """

    def __init__(
        self, node: ReplicaManager, clock: Clock, purgatory: Purgatory, ask: Ask, wake: Callable[[], object],
        given: Callable[[str, int], object], hurry: Callable[[Leader], object],
        may_block: Callable[[str, SharedPartition], bool],
    ) -> None:  # fmt: skip
        self._configs = ShareConfigs(node)
        self._node, self._clock, self._purgatory, self._ask, self._wake = node, clock, purgatory, ask, wake
        self._given, self._hurry, self._may_block = given, hurry, may_block
        self.sessions = ShareSessions()
        self.counts = ShareCounts()
        self._hosts: dict[tuple[str, SharedPartition], SharePartitionHost] = {}
        self._making = WholeLock()
        self._gone: deque[int] = deque()
        """Connections that have ended, and whose sessions end in `work`."""
        self._lost: dict[int, None] = {}
        """The latest connections that have ended, the last one last."""

    # --- messages ----------------------------------------------------------------------------------------------------

    def fetch(self, message: ShareFetchRequest, session: Session) -> Future[ShareFetchResponse]:
        """Answer a ShareFetch."""
        try:
            member = member_of(message)
            if not message.may_block and self._would_block(member, message):
                return NOT_HERE
            check_renewal(message)
            named = named_in(message.topics)
            said = {part: batches for part, batches in named.items() if batches}
            config = self._configs.of(member.group_id)
            mine = self.sessions.fetch(
                member, message.share_session_epoch, named, forgotten_in(message),
                connection=session.connection, acknowledges=bool(said), sessions_max=config.sessions_max,
            )  # fmt: skip
        except ShareSessionLimitReached as error:
            return self._refused_later(message, error)
        except ProtocolError as error:
            return completed(ShareFetchResponse(error=error.with_traceback(None)))
        if session.connection in self._lost:
            # It was sent before the end of its connection.
            self._end(mine)
            return completed(ShareFetchResponse(error=ShareSessionNotFound("the connection has ended")))
        acknowledged = self._acknowledge(member, said, is_renew=message.is_renew_ack)
        is_last = message.share_session_epoch == FINAL_EPOCH
        is_empty = is_last or message.is_renew_ack
        portions = completed(Portions()) if is_empty else self._records(message, mine, config)
        is_first = message.share_session_epoch == NEW_SESSION
        self.counts.note(self.counts.fetches, mine.parts)

        def answer(parts: list[Any]) -> ShareFetchResponse:
            errors, portions = parts
            failed = [part for part, one in portions.items() if one.error is not None]
            self.counts.note(self.counts.failed_fetches, failed)
            if is_first:
                # The first answer has them all.
                portions = dict.fromkeys(mine.parts, NOTHING_ACQUIRED) | portions
            return fetched_response(errors, portions, self._leader_of, config.limits.lock_ms)

        return self._ending(mine if is_last else None, acknowledged, gathered([acknowledged, portions], answer))

    def acknowledge(self, message: ShareAcknowledgeRequest, session: Session) -> Future[ShareAcknowledgeResponse]:
        """Answer a ShareAcknowledge."""
        try:
            member = member_of(message)
            if not message.may_block and self._would_block(member, message):
                return NOT_HERE
            mine = self.sessions.acknowledge(member, message.share_session_epoch)
        except ProtocolError as error:
            return completed(ShareAcknowledgeResponse(error=error.with_traceback(None)))
        named = named_in(message.topics)
        said = {part: batches for part, batches in named.items() if batches}
        acknowledged = self._acknowledge(member, said, is_renew=message.is_renew_ack)
        lock_ms = self._configs.of(member.group_id).limits.lock_ms
        self.counts.note(self.counts.acknowledges, said)

        def answer(errors: list[Errors]) -> ShareAcknowledgeResponse:
            failed = [part for part, error in errors[0].items() if error is not None]
            self.counts.note(self.counts.failed_acknowledges, failed)
            told = {part: errors[0].get(part) for part in named}
            return acknowledged_response(told, self._leader_of, lock_ms)

        is_last = message.share_session_epoch == FINAL_EPOCH
        return self._ending(mine if is_last else None, acknowledged, gathered([acknowledged], answer))

    def _would_block(self, member: MemberKey, message: ShareFetchRequest | ShareAcknowledgeRequest) -> bool:
        """Whether the disk may have to be waited for, or much is to be done: something is to be loaded, or written and
        synced, or more than a little is read.
        """
        mine = self.sessions.get(member)
        if mine is None or message.share_session_epoch in (NEW_SESSION, FINAL_EPOCH) or len(mine.parts) > FEW_PARTS:
            return True
        named = named_in(message.topics)
        records = message.max_records if isinstance(message, ShareFetchRequest) else 0
        for part in {**mine.parts, **named}:
            host = self._hosts.get((member.group_id, part))
            if host is None or not host.loaded.done() or self._is_over(host):
                return True
            if host.read_size(records) > QUICK_BYTES:
                return True
        return any(said and self._may_block(member.group_id, part) for part, said in named.items())

    def client_gone(self, message: ClientGone, session: Session) -> Future[None]:
        """End the sessions that began by a connection, soon: the caller does not wait for what is written then."""
        # In this order: a session that begins meanwhile is seen by one of the two.
        self._lost[message.connection] = None
        if len(self._lost) > LOST_MAX:
            del self._lost[next(iter(self._lost))]
        self._gone.append(message.connection)
        self._wake()
        return completed(None)

    def _refused_later(self, message: ShareFetchRequest, error: PylogError) -> Future[ShareFetchResponse]:
        """Refuse a session for which there is no room, when the member would ask again. (Kafka: IdleShareFetchTask)"""
        refused = _Refused(self._purgatory, ShareFetchResponse(error=error.with_traceback(None)))
        self._purgatory.park(refused, [], self._clock.tick_ms() + max(message.max_wait_ms, 0))
        return refused

    def _ending(self, mine: ShareSession | None, acknowledged: Future[Errors], answer: Future[T]) -> Future[T]:
        """End a session behind the acknowledgements of its last request."""
        if mine is not None:
            acknowledged.add_done_callback(lambda _: self._end(mine))
        return answer

    # --- acknowledgements --------------------------------------------------------------------------------------------

    def _acknowledge(self, member: MemberKey, said: Said, *, is_renew: bool) -> Future[Errors]:
        """Take what a member says; answered with the error of each partition when it is written down."""
        if not said:
            return NOTHING_SAID
        waiting: list[Future[PylogError | None]] = []
        for part, batches in said.items():
            try:
                check_said(batches, is_renew=is_renew)
                host = self._hosts.get((member.group_id, part))
                if host is None or not host.is_at_work or self._is_over(host):
                    raise self._absence(part)
                waiting.append(host.acknowledge(member.member_id, batches))
                self.counts.note_types(batches)
            except PylogError as error:
                waiting.append(completed(error.with_traceback(None)))
        return gathered(waiting, lambda errors: dict(zip(said, errors, strict=True)))

    def _absence(self, part: SharedPartition) -> PylogError:
        """Why a partition is not at work here."""
        image = self._node.image.with_id(part.topic_id)
        if image is None:
            return UnknownTopicId(f"there is no topic with id {part.topic_id}")
        try:
            self._node.roles.leader(image.name, part.partition)
        except PylogError as error:
            return error
        return UnknownTopicOrPartition(f"no session reads partition {part.partition} of {image.name!r} here")

    # --- records -----------------------------------------------------------------------------------------------------

    def _records(
        self, message: ShareFetchRequest, mine: ShareSession, config: ShareConfig
    ) -> Future[Portions]:  # fmt: skip
        most = min(message.max_bytes, config.fetch_max_bytes)
        wish = _Wish(
            mine, mine.in_turn(message.share_session_epoch), message.max_records, message.batch_size,
            message.share_acquire_mode == RECORD_LIMIT, min(message.min_bytes, most), most,
            config.isolation, self._clock.tick_ms() + max(message.max_wait_ms, 0),
        )  # fmt: skip
        if not wish.parts or wish.records <= 0 or most <= 0:
            return completed({})
        portions: Portions = {}
        hosts: list[SharePartitionHost] = []
        for part in wish.parts:
            try:
                host = self._host(mine, part, is_first=message.share_session_epoch == NEW_SESSION)
            except PylogError as error:
                portions[part] = Portion(error=error.with_traceback(None))
            else:
                hosts.append(host)
        if all(host.is_at_work for host in hosts) and self.attempt(wish, hosts, portions, is_last=False):
            return completed(portions)
        found = _ParkedShareFetch(self, self._purgatory, wish, hosts, portions)
        gathered([host.loaded for host in hosts], lambda _: None).add_done_callback(lambda _: found.resume())
        return found

    def _host(self, mine: ShareSession, part: SharedPartition, *, is_first: bool) -> SharePartitionHost:
        """The share partition of a group. The first session that reads it has it loaded again: its state may be another
        one by now. Raises UnknownTopicId, UnknownTopicOrPartition, NotLeaderOrFollower.
        """
        group_id = mine.member.group_id
        with self._making:
            known = self._hosts.get((group_id, part))
            if known is not None:
                if not self._is_over(known) and not (is_first and self._is_unread(known, mine)):
                    return known
                del self._hosts[group_id, part]
        image = self._node.image.with_id(part.topic_id)
        if image is None:
            raise UnknownTopicId(f"there is no topic with id {part.topic_id}")
        if part.partition not in image.partitions:
            raise unknown_partition(image, TopicPartition(image.name, part.partition))
        leader = self._node.roles.leader(image.name, part.partition)
        made = SharePartitionHost(
            group_id, part, leader, self._ask, self._clock, partial(self._configs.of, group_id),
            self._host_changed,
        )  # fmt: skip
        with self._making:
            # Two of its members may ask for it at once.
            host = self._hosts.setdefault((group_id, part), made)
        if host is made:
            host.load()
        return host

    def _is_unread(self, host: SharePartitionHost, mine: ShareSession) -> bool:
        """Whether no other session reads a share partition, and all of its state is written down."""
        others = (one for one in self.sessions.of_group(host.group_id) if one is not mine)
        return host.is_idle and not any(host.part in one.parts for one in others)

    def _is_over(self, host: SharePartitionHost) -> bool:
        return host.is_over or host.leader.has_ended or self._node.roles.held(*host.name) is not host.leader

    def _host_changed(self, host: SharePartitionHost) -> None:
        if host.is_over:
            self._forget(host)
        self._purgatory.tell(_key(host))

    def _forget(self, host: SharePartitionHost) -> None:
        key = host.group_id, host.part
        with self._making:
            if self._hosts.get(key) is host:
                del self._hosts[key]

    def attempt(self, wish: _Wish, hosts: Iterable[SharePartitionHost], portions: Portions, *, is_last: bool) -> bool:
        """Let a member have what there is; False where that is too little, and it may wait. `is_last`: it may not."""
        if wish.session not in self.sessions:
            return True
        at_work = []
        for host in hosts:
            if host.is_at_work:
                at_work.append(host)
            else:
                portions[host.part] = Portion(error=host.loaded.result())
                self._forget(host)
        # (Kafka: PartitionMaxBytesStrategy)
        most = max(wish.max_bytes // max(len(at_work), 1), 1)
        most = min(most, max(READ_BYTES, wish.min_bytes))
        if not is_last and wish.min_bytes > 1 and not portions:
            there = sum(host.available(most, wish.isolation) for host in at_work if host.can_acquire())
            if there < wish.min_bytes:
                return False
        left, bytes_left = wish.records, wish.max_bytes
        for host in at_work:
            if left <= 0 or bytes_left <= 0:
                break
            wanted = Wanted(left, wish.batch_size, wish.is_strict)
            portion = host.acquire(
                wish.session.member.member_id, wanted, min(most, bytes_left), wish.isolation,
                is_first=bytes_left == wish.max_bytes,
            )  # fmt: skip
            if portion.acquired or portion.error is not None:
                self._given(host.name[0], len(portion.data))
                portions[host.part] = portion
                bytes_left -= len(portion.data)
                for one in portion.acquired:
                    left -= one.last_offset + 1 - one.first_offset
        if wish.session not in self.sessions:
            # The session has ended meanwhile: its member does not acknowledge what it has just acquired.
            self._release(wish.session)
        return bool(portions)

    def wants(self, wish: _Wish, hosts: Iterable[SharePartitionHost]) -> Wants:
        """The keys of a fetch that got nothing: what partitions show next, and what becomes free in them."""
        wants: Wants = [(_end_of(wish.session), 0)]
        for host in hosts:
            wants.append((_key(host), 0))
            partition = host.leader.partition
            if not host.is_at_work or not host.can_acquire():
                # The end of the role alone.
                wants.append(((*host.name, "end"), OFFSET_MAX))
            elif wish.isolation is Isolation.READ_COMMITTED:
                wants.append(((*host.name, "last stable offset"), partition.last_stable_offset + 1))
            else:
                wants.append(((*host.name, "high watermark"), partition.high_watermark + 1))
        return wants

    def hurry(self, wish: _Wish, hosts: Iterable[SharePartitionHost]) -> None:
        """A member waits that has got all that is visible: let it have what was left of open transactions, too."""
        if wish.isolation is Isolation.READ_UNCOMMITTED:
            for host in hosts:
                self._hurry(host.leader)

    @property
    def now_ms(self) -> int:
        """The time by which deadlines go."""
        return self._clock.tick_ms()

    def _leader_of(self, part: SharedPartition, error: PylogError) -> LeaderIdAndEpoch:
        """The leader, where this node is another one."""
        if isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
            image = self._node.image.with_id(part.topic_id)
            found = None if image is None else image.partitions.get(part.partition)
            if found is not None:
                return LeaderIdAndEpoch(leader_id=found.leader, leader_epoch=found.leader_epoch)
        return LeaderIdAndEpoch()

    # --- what is told ------------------------------------------------------------------------------------------------

    def standings(self, group_id: str) -> list[tuple[TopicPartition, Standing]]:
        """The standing of a group in the partitions that are at work here, in order."""
        hosts = [one for one in list(self._hosts.values()) if one.group_id == group_id and one.is_at_work]
        return sorted((TopicPartition(*host.name), host.standing()) for host in hosts)

    def measure(self, found: Metrics) -> None:
        """Add the numbers of now."""
        image = self._node.image
        self.counts.measure(found, lambda topic_id: None if (topic := image.with_id(topic_id)) is None else topic.name)
        found.add(table.SHARE_SESSIONS, self.sessions.size)
        found.add(table.SHARE_SESSION_PARTITIONS, self.sessions.parts_size)
        for host in list(self._hosts.values()):
            if host.is_at_work:
                measure_host(found, host)

    # --- ends --------------------------------------------------------------------------------------------------------

    def _end(self, session: ShareSession) -> None:
        self.sessions.end(session)
        self._purgatory.tell(_end_of(session))
        self._release(session)

    def _release(self, session: ShareSession) -> None:
        """Free what a member has, and forget the share partitions that no session reads any more."""
        group_id, member_id = session.member
        hosts = [host for host in list(self._hosts.values()) if host.group_id == group_id and host.is_at_work]
        for host in hosts:
            host.release(member_id)
        with self._making:
            # A session that begins meanwhile is among those of the group, or makes a share partition of its own.
            read = {part for one in self.sessions.of_group(group_id) for part in list(one.parts)}
            for host in hosts:
                if host.part not in read and host.is_idle and self._hosts.get((group_id, host.part)) is host:
                    del self._hosts[group_id, host.part]

    @property
    def due_ms(self) -> int | None:
        """When `work` has something to do."""
        if self._gone:
            return self._clock.tick_ms()
        return min((host.due_ms for host in list(self._hosts.values()) if host.due_ms is not None), default=None)

    def work(self, now_ms: int) -> None:
        """Free what members have that are gone, or held too long."""
        while self._gone:
            for session in self.sessions.by_connection(self._gone.popleft()):
                self._end(session)
        for host in list(self._hosts.values()):
            due_ms = host.due_ms
            if due_ms is not None and due_ms <= now_ms:
                host.expire(now_ms)

    def role_ended(self, topic: str, partition: int) -> None:
        """Forget the share partitions of a partition for which this node has another role now."""
        for host in list(self._hosts.values()):
            if host.name == (topic, partition):
                self._forget(host)


class _ParkedShareFetch(Parked[Portions]):
    """The records of a ShareFetch, which may wait for more."""

    __slots__ = ("_fetches", "_parking", "_wish", "hosts", "portions")

    def __init__(
        self, fetches: ShareFetches, purgatory: Purgatory, wish: _Wish, hosts: list[SharePartitionHost],
        portions: Portions,
    ) -> None:  # fmt: skip
        super().__init__(purgatory)
        self._fetches, self._parking, self._wish = fetches, purgatory, wish
        self.hosts, self.portions = hosts, portions

    def resume(self) -> None:
        """Read: when all share partitions are loaded, and when something of them has changed."""
        while not self._has_attempted():
            seen = [host.version for host in self.hosts]
            wants = self._fetches.wants(self._wish, self.hosts)
            # Once more: what has come before `wants` does not wake it.
            if self._has_attempted():
                return
            if not self._parking.park(self, wants, self._wish.deadline_ms):
                return
            self._fetches.hurry(self._wish, self.hosts)
            if not self._has_news(seen, wants) or not self._parking.unpark(self):
                return

    def _has_attempted(self) -> bool:
        """Try; whether it is answered now."""
        is_last = self._parking.is_closed or self._fetches.now_ms >= self._wish.deadline_ms
        if not self._fetches.attempt(self._wish, self.hosts, self.portions, is_last=is_last) and not is_last:
            return False
        self.set_result(self.portions)
        return True

    def _has_news(self, seen: list[int], wants: Wants) -> bool:
        """Whether something has come between the attempt and the wait."""
        if self._wish.session not in self._fetches.sessions:
            return True
        return [host.version for host in self.hosts] != seen or self._fetches.wants(self._wish, self.hosts) != wants


class _Refused(Parked[ShareFetchResponse]):
    """A refusal that waits for its time."""

    __slots__ = ("_answer",)

    def __init__(self, purgatory: Purgatory, answer: ShareFetchResponse) -> None:
        super().__init__(purgatory)
        self._answer = answer

    def resume(self) -> None:
        self.set_result(self._answer)


def _end_of(session: ShareSession) -> tuple[str, MemberKey]:
    """The key under which a fetch waits for the end of its session."""
    return "end of share session", session.member


def _key(host: SharePartitionHost) -> tuple[str, str, SharedPartition]:
    """The key under which fetches wait for a share partition."""
    return "share partition", host.group_id, host.part
