"""Reads topics together with the other members of a share group: each record goes to one of them, which acknowledges it
(KIP-932; Kafka: KafkaShareConsumer).
"""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, NoReturn, Self

from pylog.client.consumer.single_thread import SingleThread, alone
from pylog.client.share_consumer.client import CLOSE_MS, OnAcknowledged, ShareConsumerClient
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.errors import PylogError
from pylog.kernel.values import Key, Value
from pylog.record import ShareRecord, TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.closing import Lease
from pylog.runtime.shared_worker import SharedWorker
from pylog.runtime.signals import WHOLE
from pylog.transport import Transport


class ShareConsumer(Generic[Key, Value]):
    """Reads topics with the other consumers of a share group, like workers of a queue.

    A record that a poll gives is locked for this consumer until it is acknowledged, or its time is up: then another one
    gets it, with a larger `delivery_count`. Nobody has a position, and members may outnumber partitions. Not
    thread-safe: two threads in it at once get ConcurrentUse, and only `wakeup` is for all. Close it, or use it as a
    context manager. Made by `Log.share_consumer`; the configs are Kafka's, in `ShareConsumerConfig`.

    >>> log.admin.alter_group_config("packing", {"share.auto.offset.reset": "earliest"})
    >>> worker = log.share_consumer("orders", group_id="packing")
    >>> records = worker.poll(60_000)
    >>> [(record.value, record.delivery_count) for record in records]
    [(b'book', 1), (b'pen', 1), (b'ink', 1)]
    """

    _lease: Lease | None = None

    def __init__(
        self, transport: Transport, node: int, config: ShareConsumerConfig, clock: Clock, lease: Lease | None = None,
        heartbeats: SharedWorker | None = None,
    ) -> None:  # fmt: skip
        """`heartbeats`: the thread that the log's consumers share for these; None: one of its own."""
        self.config = config
        self._client = client = ShareConsumerClient(
            transport, node, config, clock, heartbeats or SharedWorker("pylog-heartbeat", clock)
        )
        self._turn: SingleThread = client.turn
        if lease is not None:
            client.join(lease)
        self._lease = lease

    def __del__(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self._client.handle_dropped(self, lease)

    def __repr__(self) -> str:
        log = "" if self._lease is None else f" of {self._lease.log}"
        state = ", closed" if self._client.requests.is_ended else ""
        return f"<ShareConsumer of group {self.config.group_id!r}{log}{state}>"

    # --- its topics --------------------------------------------------------------------------------------------------

    @alone
    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics in place of the ones before; the next poll joins the group. Raises InvalidTopic.

        >>> worker.subscribe(["orders", "returns"])
        >>> sorted(worker.subscription())
        ['orders', 'returns']
        """
        self._client.subscribe(topics)

    @alone
    def unsubscribe(self) -> None:
        """Read nothing, and leave the group, as `close` does.

        >>> worker.unsubscribe()
        >>> worker.subscription()
        set()
        """
        self._client.requests.run(self._client.unsubscribe())

    @alone
    def subscription(self) -> set[str]:
        """The topics subscribed to.

        >>> worker.subscription()
        {'orders'}
        """
        return set(self._client.topics)

    # --- records -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0) -> list[ShareRecord[Key, Value]]:
        """Records that are locked for this consumer from now on; waits up to `timeout_ms` for the first one.

        At most `max_poll_records`. In implicit mode the records of the last poll are accepted, those that were not
        acknowledged otherwise; in explicit mode every one has to be acknowledged, or this raises InvalidRecordState.
        Raises DeserializationError, with the record in it: that comes free, unless it is acknowledged otherwise;
        CorruptBatch (its records are rejected); Wakeup; GroupMaxSizeReached, GroupIdNotFound (the group is one of
        another kind) and others that make it impossible to be a member; RuntimeError (no topics); Closed.

        >>> worker.acknowledge(records[0], "release")
        >>> [(record.value, record.delivery_count) for record in worker.poll(60_000)]
        [(b'book', 2)]
        """
        return self._taken(timeout_ms, None)

    def _taken(self, timeout_ms: float, count: int | None) -> list[ShareRecord[Any, Any]]:
        records: list[ShareRecord[Any, Any]] = []
        try:
            with WHOLE, self._turn:
                records = self._client.requests.run(self._client.poll(timeout_ms, count))
        except BaseException:
            if records:
                # A signal has waited until here: the caller does not get these.
                self._keep(records)
            raise
        return records

    @alone
    def _keep(self, records: list[ShareRecord[Any, Any]]) -> None:
        self._client.keep(records)

    def __iter__(self) -> Iterator[ShareRecord[Key, Value]]:
        """Records as they come, one by one; waits for more for ever. To take the next one accepts the one before,
        unless it was acknowledged otherwise; in explicit mode it has to be acknowledged.
        """
        return self

    def __next__(self) -> ShareRecord[Key, Value]:
        """The next record of a loop: `next(consumer)`. Raises what `poll` raises."""
        while True:
            records = self._taken(self.config.fetch_max_wait_ms, 1)
            if records:
                return records[0]

    def wakeup(self) -> None:
        """Let the poll in progress, or the next one, raise Wakeup. From any thread, and from a signal handler.

        >>> worker.wakeup()
        >>> worker.poll(60_000)
        Traceback (most recent call last):
            ...
        pylog.errors.Wakeup: wakeup was called
        """
        self._client.wakeup()

    # --- acknowledgements --------------------------------------------------------------------------------------------

    @alone
    def acknowledge(self, record: Any, type: str = "accept") -> None:  # noqa: A002 - Kafka's name
        """Say what becomes of a record of the last poll:

        "accept"     it is done
        "release"    somebody gets it again, this consumer perhaps
        "reject"     nobody gets it again
        "renew"      this consumer goes on with it: its lock begins again, and it is to be acknowledged later

        It is sent with the next poll or commit, a "renew" at once. Until then another word counts instead. Raises
        InvalidRecordState (the record is not of the last poll), ValueError.

        >>> worker.acknowledge(records[1], "reject")
        >>> worker.commit_sync()
        {TopicPartition(topic='orders', partition=0): None}
        """
        self._client.acknowledge((record.topic, record.partition, record.offset), type)

    @alone
    def commit_sync(self, timeout_ms: int | None = None) -> dict[TopicPartition, PylogError | None]:
        """Send what was acknowledged, in implicit mode all that the last poll gave, and wait until it is done; gives
        the error of each partition, or None. Waits for `default_api_timeout_ms` unless told otherwise.

        >>> worker.commit_sync()
        {TopicPartition(topic='orders', partition=0): None}
        """
        return self._client.requests.run(self._client.commit(timeout_ms))

    @alone
    def commit_async(self) -> None:
        """Send as `commit_sync` does, without waiting: the callback hears how it went.

        >>> worker.commit_async()
        """
        self._client.commit_in_background()

    @alone
    def set_acknowledgement_commit_callback(self, callback: OnAcknowledged | None) -> None:
        """Have `callback(offsets, error)` called by later polls, commits and the close, for the acknowledgements that
        were answered: the offsets by partition, and None or the error. Without one, errors are logged.

        >>> worker.set_acknowledgement_commit_callback(lambda offsets, error: print(offsets[orders], error))
        >>> found = worker.commit_sync()
        {0, 1, 2} None
        """
        self._client.listen(callback)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a share consumer belongs to its process, and is not pickled: make one there")

    # --- the end -----------------------------------------------------------------------------------------------------

    @alone
    def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Acknowledge as `commit_sync` does, let go of what is locked, leave the group, and end. A second call does
        nothing. Waits for answers up to `timeout_ms`. Later calls raise Closed.

        >>> worker.close()
        >>> worker
        <ShareConsumer of group 'packing' of <Log :memory: node 1, own>, closed>
        """
        self._client.requests.run(self._client.end(timeout_ms))

    def __enter__(self) -> Self:
        return self

    @alone
    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close; after an exception nothing is accepted by itself, so that the records in work are delivered again."""
        self._client.requests.run(self._client.end(CLOSE_MS, accepts=error is None))
