"""`open` and `Log`: what a user holds.

    mode="own"    this process owns the directory: it writes, and everything works
    mode="read"   no lock, nothing is written: reads what the owner, wherever it is, has published
    mode="auto"   own

    pylog.open(path)        -> Broker over DiskFiles          (mode own)
                            -> ReadOnlyBroker over DiskFiles  (mode read)
    pylog.open(":memory:")  -> Broker over MemoryFiles

Producers and consumers are clients of the node over a transport that calls it in their thread.
"""

import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Unpack

from pylog.broker.broker import Broker
from pylog.broker.describe import unknown_topic
from pylog.broker.log_cleaner import Cleaned
from pylog.client.producer import Producer
from pylog.client_half import ClientHalf
from pylog.commitlog.recovery import Quarantined, Recovered
from pylog.config import NodeConfig
from pylog.errors import ReadOnly, UnknownTopicOrPartition
from pylog.logdirs.damage import Findings
from pylog.open_log import MEMORY, OpenLog, checked_paths, once_free, owner, reader
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock, SystemClock
from pylog.runtime.signals import WholeLock
from pylog.transport import MemoryTransport, Transport
from pylog.views import TopicView

if TYPE_CHECKING:
    from pylog.broker.read_only_broker import ReadOnlyBroker
    from pylog.following import Following
    from pylog.server.security import SecurityOptions
    from pylog.server.server import Server

Mode = Literal["auto", "own", "read"]
Flush = Literal["sync", "interval", "none"]
PARTS_OF_WORK = """
    pylog.client.admin.admin pylog.client.consumer.consumer pylog.coordinator.group pylog.coordinator.transaction
    pylog.kernel.pure cramjam difflib lz4.frame zstandard
""".split()
"""The parts that an open log may need at any moment. An import takes a descriptor, and a call in the middle of work may
find none: `open` loads them before it begins.
"""


def open(  # noqa: A001
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    mode: Mode = "auto",
    flush: Flush | None = None,
    config: Mapping[str, Any] | None = None,
    node_id: int | None = None,
    transport: Transport | None = None,
    clock: Clock | None = None,
) -> "Log":
    """Open a log directory, or `":memory:"`, and give a `Log`; use it as a context manager.

    Several directories are given as a list: partitions are spread over them, and one that fails takes only its own
    offline; the first one holds the list of topics.

    `mode`: "own" (and "auto") makes a missing directory and locks it; "read" needs no lock and works while another
    process writes. `flush`: when an append is durable: "sync" before it is acknowledged (the default on disk),
    "interval" within a second, "none" when the system pleases (the default in memory). `config`: Kafka's broker
    configs, among them defaults for topics (`log.segment.bytes`...). `node_id` and `transport`: for instances that
    replicate to each other.

    Raises: DirectoryLocked (names the owner's pid), LogNotFound (reader, nothing there; or the directory named first is
    not the one with the list of topics: it is not mounted, say), UnsupportedFormat, ReadOnly, StorageError (a file
    where the directory should be...), InvalidConfig.
    """
    if mode not in ("auto", "own", "read"):
        raise ValueError(f'mode is {mode!r}, not "auto", "own" or "read"')
    if flush not in (None, "sync", "interval", "none"):
        raise ValueError(f'flush is {flush!r}, not "sync", "interval" or "none"')
    for part in PARTS_OF_WORK:
        import_module(part)
    where, *_ = paths = checked_paths(path)
    if node_id is not None and (type(node_id) is not int or not 0 <= node_id < 1 << 31):
        raise ValueError(f"node_id is {node_id!r}, not a whole number from 0 to {(1 << 31) - 1}")
    node_config = NodeConfig.from_kafka(config or {})
    ticking = clock or SystemClock()
    way = transport or MemoryTransport()
    if mode == "read":
        return Log(where, reader(paths, node_config, way, ticking, node_id), way, ticking)
    make = partial(owner, paths, node_config, way, ticking, node_id, flush)
    return once_free(partial(_owned, where, make, way, ticking))


def serve(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = MEMORY,
    listen: str | Sequence[str] = "127.0.0.1:0",
    *,
    advertise: str | Sequence[str] | None = None,
    flush: Flush | None = None,
    config: Mapping[str, Any] | None = None,
    **security: "Unpack[SecurityOptions]",
) -> "Server":
    """Open a log directory, or `":memory:"`, and serve it to Kafka clients; closing the server closes the log.

    See `open` and `Log.serve`, and what they raise.
    """
    log = open(path, mode="own", flush=flush, config=config)
    try:
        server = log.serve(listen, advertise=advertise, **security)
    except BaseException:
        log.close()
        raise
    server.owned = log
    return server


def _owned(path: str, make: Callable[[], Broker], transport: Transport, clock: Clock) -> "Log":
    log = None
    try:
        # Under a lock not even a second signal strikes: half of a node could not be closed.
        with WholeLock():
            log = Log(path, make(), transport, clock)
    except BaseException:
        if log is not None:
            # A signal waited until here. The caller gets no log, so close it, or the directory stays locked.
            log.close()
        raise
    return log


class Log(ClientHalf[TopicView]):
    """An open log: topics, producers, consumers. Thread-safe. Close it, or use it as a context manager.

    A process that is killed loses nothing that was acknowledged; the next open reads a little more. A process that ends
    in the ordinary way delivers what was sent and closes the log. A log that is dropped without `close`, with all that
    was made with it, is closed in the background, with a ResourceWarning.
    """

    def __init__(self, path: str, node: "Broker | ReadOnlyBroker", transport: Transport, clock: Clock) -> None:
        super().__init__(OpenLog(path, node, transport, node.node_id), transport, node.node_id, clock)
        self.path = path
        self._node = node
        self._followings: weakref.WeakSet[Following] = weakref.WeakSet()

    @property
    def mode(self) -> Literal["own", "read"]:
        """How the directory was opened."""
        return "own" if isinstance(self._node, Broker) else "read"

    @property
    def node_id(self) -> int:
        """The id of this node, as in the directory's `meta.properties`."""
        return self._node.node_id

    @property
    def broker(self) -> Broker:
        """The node itself, for giving roles (`apply`). Holding it keeps no log open. Raises ReadOnly in mode "read"."""
        if not isinstance(self._node, Broker):
            raise ReadOnly(f'{self.path} was opened with mode="read": there is no node of its own here')
        return self._node

    @property
    def recovered(self) -> tuple[Recovered, ...]:
        """The torn tails that the open cut off after an unclean stop, at most one for each partition."""
        return self._node.recovered if isinstance(self._node, Broker) else ()

    @property
    def quarantined(self) -> tuple[Quarantined, ...]:
        """The damage below the durable offset that the open found after an unclean stop. Reading steps over it."""
        return self._node.quarantined if isinstance(self._node, Broker) else ()

    @property
    def found_damage(self) -> Findings:
        """The damage in sealed segments that the background scrubber (`scrub.interval.ms`) found since the open."""
        return self._node.housekeeping.scrubber.findings if isinstance(self._node, Broker) else Findings()

    # --- files ---------------------------------------------------------------------------------------------------

    def apply_retention(self) -> dict[TopicPartition, int]:
        """Drop expired segments now, and return how many for each partition. A background thread does so regularly."""
        self._check_open()
        return self.broker.housekeeping.retain()

    def clean(self, topic: str | None = None) -> dict[TopicPartition, Cleaned]:
        """Compact a topic, or all compacted topics, now, however little that frees. Returns the work done.

        A background thread compacts where it is worth it. Raises CorruptBatch, DiskFull, ReadOnly.
        """
        self._check_open()
        partitions = None if topic is None else [TopicPartition(topic, view.partition) for view in self.topic(topic)]
        return self.broker.housekeeping.clean(partitions)

    def find_damage(self, topic: str | None = None, partition: int | None = None) -> Findings:
        """Read every byte of a partition, a topic or the whole log, and return the damage. Changes nothing.

        Raises UnknownTopicOrPartition, ReadOnly, and every error of opening a partition: none is left out silently.
        """
        self._check_open()
        views = [] if topic is None else [view for view in self.topic(topic) if partition in (None, view.partition)]
        if topic is not None and not views:
            raise UnknownTopicOrPartition(f"topic {topic!r} has no partition {partition}")
        keys = None if topic is None else [TopicPartition(topic, view.partition) for view in views]
        return self.broker.housekeeping.find_damage(keys)

    def repair(self, findings: Findings, *, keep_in: str | os.PathLike[str] | None = None) -> dict[TopicPartition, str]:
        """Give up what `find_damage` has found, and nothing else: the offsets become gaps, which reading steps over.

        The files as they were are copied first, to `<log directory>-repaired/<time>/<topic>-<partition>`, or into a
        folder of this moment in `keep_in`; gives where, for each partition that has lost something. Raises
        CorruptBatch (there is more damage than was found: look again; nothing of that segment was changed), DiskFull,
        DurabilityUnknown, ReadOnly, ValueError (`keep_in` lies in the log directory).
        """
        self._check_open()
        where = os.path.abspath(os.fspath(keep_in)) if keep_in is not None else None
        return self.broker.housekeeping.repair(findings, where)

    def topic(self, name: str) -> TopicView:
        """A topic as it is now. Raises UnknownTopicOrPartition."""
        self._check_open()
        self._topics.topic(name)
        if name not in self._node.image.topics:
            raise unknown_topic(name)
        return TopicView(self._node, name, self._clock, self._lease)

    # --- clients ---------------------------------------------------------------------------------------------------

    def producer(self, **config: Any) -> Producer:
        self._check_open()
        if self.mode == "read":
            raise ReadOnly(f'{self.path} was opened with mode="read": open it with mode="own" to send')
        return super().producer(**config)

    def _check_group(self, group_id: str | None) -> None:
        if group_id is not None and self.mode == "read":
            raise ReadOnly(
                f'{self.path} was opened with mode="read", and a group writes: open it with mode="own", or leave '
                f"group_id={group_id!r} out"
            )

    # --- the wire --------------------------------------------------------------------------------------------------

    def serve(
        self, listen: str | Sequence[str] = "127.0.0.1:0", *, advertise: str | Sequence[str] | None = None,
        **security: "Unpack[SecurityOptions]",
    ) -> "Server":  # fmt: skip
        """A server by which every Kafka client reaches this log; `server.bootstrap_servers` says where.

        `listen`: host and port; port 0 takes one that is free; "unix:path" is a Unix socket. `advertise`: the address
        that clients are told to connect to, if it is another one, as in a container. Several listeners have names, and
        their advertised addresses the same ones. The name is the security protocol, "SASL_SSL://0.0.0.0:9093", unless
        `listener.security.protocol.map` says which it has; without one every client that reaches the address may do
        everything, so it has to be an address of this host alone. `security`: users and certificates
        (`server.security.SecurityOptions`). Closing the log closes the server.
        Raises: ValueError (an address that no client could use, or that others would reach without TLS; a certificate
        that is none), OSError (it is taken), TypeError (an option that is not known), ReadOnly.
        """
        from pylog.server.served_node import ServedNode
        from pylog.server.server import Server

        self._check_open()
        broker = self.broker
        node = ServedNode(broker.handle, broker.node_id, broker.cluster_id, broker.config, self._clock)
        server = Server(
            node, listen, advertise=advertise, security=security,
            credential_of=lambda mechanism, user: broker.image.users.get((user, mechanism)),
        )  # fmt: skip
        self._opened.add_server(server)
        return server

    # --- replication -----------------------------------------------------------------------------------------------

    def follow(
        self, bootstrap_servers: str | Sequence[str], topics: Sequence[str] | None = None, *,
        config: Mapping[str, Any] | None = None, **configs: Any,
    ) -> "Following":  # fmt: skip
        """Copy topics of a leader, a pylog server's or a Kafka cluster's, into this log, until the result is closed.

        `topics`: which; None: all, those of coordinators and those to come, too. Addresses and configs (TLS, SASL...)
        are those of `connect`. This log takes over the cluster's id, the topics' ids and configs, and the batches as
        they are, under their offsets and leader epochs. As long as neither side has cleaned, the files are a pylog
        leader's, byte for byte. It counts for acks=all where the leader was told so (`Log.lead`). What is here is read
        by `topic`, and with mode="read", up to the leader's high watermark; producers and consumers of this log are
        refused, until `lead` makes this node the leader.

        Raises: NetworkError, SaslAuthentication, SslAuthentication, InvalidConfig, UnknownTopicOrPartition,
        DuplicateBrokerRegistration (both have one node id), InconsistentClusterId, InconsistentTopicId (what is here is
        something else), FencedLeaderEpoch (this node has records of a later leader), LogDiverged (two nodes have led in
        one epoch), ReadOnly, ValueError (a topic is followed already). Later ones are in `Following.lag`.
        """
        from pylog.following import Following

        self._check_open()
        if isinstance(topics, str):
            raise TypeError(f"topics is a list of names, [{topics!r}], not one name")
        known = [
            name for following in self._followings for name in following.topics if topics is None or name in topics
        ]
        if known:
            raise ValueError(f"topic {known[0]!r} is followed already: close that first")
        following = Following(self.broker, bootstrap_servers, topics, {**(config or {}), **configs}, self._clock)
        self._opened.add_server(following)
        self._followings.add(following)
        return following

    def lead(self, topic: str, *, followers: Iterable[int] = ()) -> dict[int, int]:
        """Lead every partition of a topic from now on; gives the leader epoch of each, which was never used.

        `followers`: the ids of the nodes that count for acks=all. An append with acks="all" is answered, and visible,
        when all of them have it; other followers are not waited for. Nothing is elected: before another node leads,
        see to it that the old leader does not, and promote a follower that counted, or what it has not is lost.

        Raises: UnknownTopicOrPartition, FencedLeaderEpoch (there is no epoch left), ReadOnly, ValueError.
        """
        self._check_open()
        broker, counted = self.broker, frozenset(followers)
        wrong = [node for node in counted if type(node) is not int or not 0 <= node < 1 << 31 or node == self.node_id]
        if wrong:
            raise ValueError(f"followers has {wrong[0]!r}: give the ids of other nodes, as in followers={{2}}")
        broker.node.topics.image_of(topic)
        for following in self._followings:
            following.release(topic)
        return broker.lead(topic, counted)

    # --- the end ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Make everything appended so far durable, whatever the flush mode. Raises DurabilityUnknown, Closed."""
        self._check_open()
        if isinstance(self._node, Broker):
            self._node.sync()
