"""`Log`, what a user holds, and the ways in: `open` and `serve`.

    mode="own"      this process owns the directory: it writes, and everything works; others may attach to it
    mode="attach"   another process owns it: what changes something goes to that, the files are read here
    mode="auto"     own, or attach where another process owns it, and take over when that ends
    mode="read"     no lock, nothing is written: reads what the owner, wherever it is, has published

    pylog.open(path)        -> Broker over DiskFiles, with a door  (mode own)
                            -> Attachment                          (mode attach)
                            -> ReadOnlyBroker over DiskFiles       (mode read)
    pylog.open(":memory:")  -> Broker over MemoryFiles

Producers and consumers are clients of the node over a transport: one that calls it in their thread, or the attachment
to an owner in another process.
"""

import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, Unpack

from pylog.broker.broker import Broker
from pylog.broker.log_cleaner import Cleaned
from pylog.broker.nodes import MEMORY, checked_paths, in_memory, made_whole, reader
from pylog.commitlog.recovery import Quarantined, Recovered
from pylog.config import NodeConfig
from pylog.errors import NotOwner, ReadOnly, UnknownTopicOrPartition
from pylog.handles.client_half import ClientHalf
from pylog.handles.open_log import Node, OpenLog
from pylog.handles.views import TopicView
from pylog.kernel.notebook import table
from pylog.logdirs.damage import Findings
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock, SystemClock
from pylog.transport import ANY_NODE, MemoryTransport, Transport

if TYPE_CHECKING:
    from socket import socket

    from pylog.attach.attachment import Attachment
    from pylog.attach.notice import Notice
    from pylog.attach.settings import Settings
    from pylog.broker.read_only_broker import ReadOnlyBroker
    from pylog.config.typed import ConnectionOptions, NodeOptions
    from pylog.handles.following import Following
    from pylog.server.security import SecurityOptions
    from pylog.server.server import Server


Mode = Literal["auto", "own", "attach", "read"]
MODES = "auto", "own", "attach", "read"
Flush = Literal["sync", "interval", "none"]
PARTS_OF_WORK = """
    pylog.client.admin.admin pylog.client.consumer.consumer pylog.client.share_consumer.share_consumer
    pylog.coordinator.group pylog.coordinator.share.coordinator pylog.coordinator.transaction
    pylog.kernel.pure cramjam difflib lz4.frame zstandard
""".split()
"""The parts that an open log may need at any moment. An import takes a descriptor, and a call in the middle of work may
find none: `open` loads them before it begins, and a command that stays once it is at work.
"""


def _own(node: object, attachment: "Attachment | None") -> Broker | None:
    if attachment is not None:
        return attachment.broker
    return node if isinstance(node, Broker) else None


def _mode(node: object, attachment: "Attachment | None") -> Literal["own", "attach", "read"]:
    if _own(node, attachment) is not None:
        return "own"
    return "read" if attachment is None else "attach"


def _words(path: str, node: "Broker | ReadOnlyBroker | Attachment", attachment: "Attachment | None") -> str:
    return f"{path} node {node.node_id}, {_mode(node, attachment)}"


class Log(ClientHalf[TopicView]):
    """An open log: topics, producers, consumers. Thread-safe. Close it, or use it as a context manager.

    A process that is killed loses nothing that was acknowledged; the next open reads a little more. A process that ends
    in the ordinary way delivers what was sent and closes the log. A log that is dropped without `close`, with all that
    was made with it, is closed in the background, with a ResourceWarning. Calls raise Closed after `close`. In a
    process that is attached to the owner, `apply_retention`, `clean`, `find_damage`, `repair`, `flush`, `serve`,
    `follow` and `lead` raise NotOwner.

    >>> log
    <Log :memory: node 1, own>
    >>> log.topics()
    ['orders']
    """

    def __init__(
        self, path: str, node: "Broker | ReadOnlyBroker | Attachment", held: Node, transport: Transport, clock: Clock,
        *, attachment: "Attachment | None" = None, again: "Callable[[], Log] | None" = None,
    ) -> None:  # fmt: skip
        self.path = path
        self._node = node
        self._attachment = attachment
        self._again = again
        asked = node.node_id if attachment is None else ANY_NODE
        # It has to live longer than this handle.
        words = partial(_words, path, node, attachment)
        super().__init__(OpenLog(path, words, held, transport, asked), clock)
        self._followings: weakref.WeakSet[Following] = weakref.WeakSet()

    def _check_open(self) -> None:
        if self._opened.is_inherited and self._again is not None:
            self._begin_anew(self._again)
        super()._check_open()

    def _begin_anew(self, again: "Callable[[], Log]") -> None:
        """Be a log of this process, which was forked: what is open is its parent's."""
        with self._opened.anew:
            inherited = self._opened
            if not inherited.is_inherited:
                return
            fresh = again()
            if self._opened is inherited:
                self.__dict__.update(fresh.__dict__)
            else:
                # The handler of a signal that struck meanwhile was first.
                fresh.close()

    @property
    def mode(self) -> Literal["own", "attach", "read"]:
        """The mode in which this process has the directory now: "attach" becomes "own" when it takes over."""
        if self._opened.is_inherited and self._again is not None:
            self._begin_anew(self._again)
        return _mode(self._node, self._attachment)

    @property
    def node_id(self) -> int:
        """The id of this node, as in the directory's `meta.properties`."""
        return self._node.node_id

    @property
    def _own(self) -> Broker | None:
        """The node, if it is in this process."""
        return _own(self._node, self._attachment)

    @property
    def broker(self) -> Broker:
        """The node itself, for giving roles (`apply`). Holding it keeps no log open. Raises ReadOnly in mode "read",
        NotOwner in a process that is attached to the owner.
        """
        self._check_open()
        own = self._own
        if own is not None:
            return own
        if self._attachment is None:
            raise ReadOnly(f'{self.path} was opened with mode="read": there is no node of its own here')
        raise NotOwner(f"this takes the owner of the log: {self._attachment.who} has the node")

    @property
    def recovered(self) -> tuple[Recovered, ...]:
        """The torn tails that the open cut off after an unclean stop, at most one for each partition."""
        return () if self._own is None else self._own.recovered

    @property
    def quarantined(self) -> tuple[Quarantined, ...]:
        """The damage below the durable offset that the open found after an unclean stop. Reading steps over it."""
        return () if self._own is None else self._own.quarantined

    @property
    def found_damage(self) -> Findings:
        """The damage in sealed segments that the background scrubber (`scrub.interval.ms`) found since the open."""
        return Findings() if self._own is None else self._own.housekeeping.scrubber.findings

    # --- files ---------------------------------------------------------------------------------------------------

    def apply_retention(self) -> dict[TopicPartition, int]:
        """Drop expired segments now, and return how many for each partition. A background thread does so regularly.

        Raises ReadOnly, NotOwner, StorageError (the disk).

        >>> topic = log.create_topic("clicks", config={"retention.ms": 60_000})
        >>> topic[0].append([pylog.Record(b"page 1", timestamp=0)]).base_offset
        0
        >>> log.apply_retention()
        {TopicPartition(topic='clicks', partition=0): 1}
        """
        self._check_open()
        return self.broker.housekeeping.retain()

    def clean(self, topic: str | None = None) -> dict[TopicPartition, Cleaned]:
        """Compact a topic, or all compacted topics, now, however little that frees. Returns the work done.

        The active segment of each partition is rolled first, and compacted with the others. A background thread
        compacts the other segments where it is worth it. `PartitionView.cleaning` says of each partition why nothing
        was done (`idle_reason`), and in its `last` result how many tombstones are kept, and until when. Raises
        CorruptBatch, DiskFull, PartitionFailed, ReadOnly, ConcurrentUse (in a signal's handler that struck in it).

        >>> topic = log.create_topic("prices", config={"cleanup.policy": "compact"})
        >>> appended = topic[0].append([pylog.Record(b"2.50", b"pen"), pylog.Record(b"2.40", b"pen")])
        >>> cleaned = log.clean("prices")[TopicPartition("prices", 0)]
        >>> cleaned.records_read, cleaned.records_kept
        (2, 1)
        """
        self._check_open()
        partitions = None if topic is None else [TopicPartition(topic, view.partition) for view in self.topic(topic)]
        return self.broker.housekeeping.clean(partitions)

    def find_damage(self, topic: str | None = None, partition: int | None = None) -> Findings:
        """Read every byte of a partition, a topic or the whole log, and return the damage. Changes nothing.

        Raises UnknownTopicOrPartition, ReadOnly, and every error of opening a partition: none is left out silently.

        >>> log.find_damage("orders")
        Findings(damages=(), indexes=(), changed=())
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

        >>> log.repair(log.find_damage())
        {}
        """
        self._check_open()
        where = os.path.abspath(os.fspath(keep_in)) if keep_in is not None else None
        return self.broker.housekeeping.repair(findings, where)

    def _repr_html_(self) -> str | None:
        if self._opened.closed:
            return None
        views = [self.topic(name) for name in self.topics()]
        rows = [
            (
                topic.name, len(topic), sum(view.high_watermark - view.start_offset for view in topic),
                sum(view.size for view in topic),
            )
            for topic in views
        ]  # fmt: skip
        return table(repr(self), ("topic", "partitions", "offsets", "bytes"), rows)

    def topic(self, name: str) -> TopicView:
        """A topic as it is now. Raises UnknownTopicOrPartition.

        >>> log.topic("orders")
        <TopicView orders with 1 partitions>
        """
        self._check_open()
        self._topics.topic(name)
        self._node.image.topic(name)
        return TopicView(self._node, name, self._clock, self._lease)

    # --- clients ---------------------------------------------------------------------------------------------------

    def _check_may_send(self) -> None:
        if self.mode == "read":
            raise ReadOnly(f'{self.path} was opened with mode="read": open it with mode="own" to send')

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
        `listener.security.protocol.map` says which it has; without one every client that reaches the address is let
        in, so it has to be an address of this host alone. `security`: users, certificates, and what clients may do
        (`server.security.SecurityOptions`): everything, without an authorizer. Closing the log closes the server.
        Raises: ValueError (an address that no client could use, or that others would reach without TLS; a file that
        is not a certificate), OSError (it is taken), TypeError (an option that is not known, or of a wrong type),
        InvalidConfig (`super.users`), ReadOnly.

        >>> with log.serve("127.0.0.1:0") as server:
        ...     server.bootstrap_servers
        '127.0.0.1:...'
        """
        from pylog.server.quotas import ClientQuotas
        from pylog.server.security import LogUsers, authorizer_of
        from pylog.server.served_node import ServedNode
        from pylog.server.server import Server

        self._check_open()
        broker = self.broker
        # Each request looks at it.
        acls = partial(attrgetter("image.acls"), broker.node.topics.metadata_log)
        authorizer = authorizer_of(security, acls, broker.config)
        quotas = ClientQuotas(lambda: broker.image.quotas, self._clock)
        node = ServedNode(
            broker.handle, broker.node_id, broker.configs, self._clock, authorizer=authorizer, quotas=quotas
        )  # fmt: skip
        server = Server(
            node, listen, advertise=advertise, security=security,
            users=LogUsers(lambda: broker.image.users, broker.directory_id.bytes),
        )  # fmt: skip
        self._opened.add_server(server)
        return server

    # --- replication -----------------------------------------------------------------------------------------------

    def follow(
        self, bootstrap_servers: str | Sequence[str], topics: Sequence[str] | None = None, *,
        config: Mapping[str, object] | None = None, **configs: Unpack["ConnectionOptions"],
    ) -> "Following":  # fmt: skip
        """Copy topics of a leader, a pylog server's or a Kafka cluster's, into this log, until the result is closed.

        `topics`: which; None: all, those of coordinators and those to come, too. Addresses and configs (TLS, SASL...)
        are those of `connect`. This log takes over the cluster's id, the topics' ids and configs, and the batches as
        they are, under their offsets and leader epochs. As long as neither side has cleaned, the files are a pylog
        leader's, byte for byte. It counts for acks=all while the leader has it in the ISR (`Log.lead`). What is here is
        read by `topic`, and with mode="read", up to the leader's high watermark; producers and consumers of this log
        are refused, until `lead` makes this node the leader.

        Raises: NetworkError, SaslAuthentication, SslAuthentication, InvalidConfig, UnknownTopicOrPartition,
        DuplicateBrokerRegistration (both have one node id), InconsistentClusterId, InconsistentTopicId (what is here is
        something else), FencedLeaderEpoch (this node has records of a later leader), LogDiverged (two nodes have led in
        one epoch), ReadOnly, ValueError (a topic is followed already). Later ones are in `Following.lag`.

        >>> with log.serve() as server, pylog.open(":memory:", node_id=7) as copy:
        ...     with copy.follow(server.bootstrap_servers, ["orders"]) as following:
        ...         following.topics
        ['orders']
        """
        from pylog.handles.following import Following

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

        `followers`: the ids of the nodes that are replicas. Each joins the ISR when it has caught up, in an empty
        partition at once, and leaves it when it has not for `replica.lag.time.max.ms`. An append with acks="all" is
        answered, and visible, when all of the ISR have it; it is refused (NotEnoughReplicas) while the ISR is smaller
        than `min.insync.replicas`. Nothing is elected: before another node leads, see to it that the old leader does
        not, and promote a follower in its ISR (`PartitionView.isr`), or the records that it lacks are lost.

        Raises: UnknownTopicOrPartition, FencedLeaderEpoch (there is no epoch left), ReadOnly, ValueError.

        >>> log.lead("orders", followers=[7])
        {0: 1}
        >>> log.topic("orders")[0].replicas
        (1, 7)
        """
        self._check_open()
        broker, counted = self.broker, frozenset(followers)
        wrong = [node for node in counted if type(node) is not int or not 0 <= node < 1 << 31 or node == self.node_id]
        if wrong:
            raise ValueError(f"followers has {wrong[0]!r}: give the ids of other nodes, as in followers={{2}}")
        led = broker.led_with(topic)
        for following in self._followings:
            following.release(led)
        epochs = broker.lead(topic, counted)
        self._cluster.refresh(led)
        return epochs

    # --- the end ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Make everything appended so far durable, whatever the flush mode. Raises DurabilityUnknown, Closed, NotOwner.
        In a process that only reads there is nothing to do.

        >>> log.flush()
        >>> partition = log.topic("orders")[0]
        >>> partition.durable_offset == partition.next_offset
        True
        """
        self._check_open()
        if self.mode != "read":
            self.broker.sync()


def open(  # noqa: A001
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    mode: Mode = "auto",
    flush: Flush | None = None,
    config: "NodeOptions | None" = None,
    node_id: int | None = None,
    transport: Transport | None = None,
    clock: Clock | None = None,
    wait: float | None = None,
) -> Log:
    """Open a log directory, or `":memory:"`, and give a `Log`; use it as a context manager.

    Several directories are given as a list: partitions are spread over them, and one that fails takes only its own
    offline; the first one holds the list of topics.

    `mode`: "own" makes a missing directory and locks it. "auto" does so, too, unless another process owns it: then this
    one is attached to that, with the same API, and takes over when it ends. "attach" only attaches. "read" needs no
    owner, and writes nothing. `wait`: how many seconds to wait for what is in the way: another owner, or one that is
    not there yet; None: 30 for "auto" where an owner is about to open or to end, and 0 else.

    `flush`: when an append is durable: "sync" before it is acknowledged (the default on disk), "interval" within a
    second, "none" when the system pleases (the default in memory). `config`: Kafka's broker configs, among them
    defaults for topics (`log.segment.bytes`...). What is given here has to be what the owner goes by. `node_id` and
    `transport`: for instances that replicate to each other; a log with a transport of its own is owned.

    Raises: DirectoryLocked (names the owner's pid), NoOwner (nobody to attach to), SettingsDiffer, LogNotFound (reader,
    nothing there; or the directory named first is not the one with the list of topics: it is not mounted, say),
    UnsupportedFormat, ReadOnly, StorageError (a file where the directory should be...), InvalidConfig.

    >>> with pylog.open("data") as log, log.producer() as producer:
    ...     topic = log.create_topic("clicks", exist_ok=True)
    ...     producer.send("clicks", b"page 1").result().offset
    0
    """
    load_parts()
    return open_lazily(
        path, mode=mode, flush=flush, config=config, node_id=node_id, transport=transport, clock=clock, wait=wait
    )


def load_parts() -> None:
    """Load what an open log may need later."""
    for part in PARTS_OF_WORK:
        import_module(part)


def open_lazily(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    mode: Mode = "auto",
    flush: Flush | None = None,
    config: "NodeOptions | None" = None,
    node_id: int | None = None,
    transport: Transport | None = None,
    clock: Clock | None = None,
    wait: float | None = None,
) -> Log:
    """`open` without `load_parts`, which is half of its time in a new process: for a command, which ends soon."""
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}, not one of {', '.join(MODES)}")
    if flush not in (None, "sync", "interval", "none"):
        raise ValueError(f'flush is {flush!r}, not "sync", "interval" or "none"')
    paths = checked_paths(path)
    if node_id is not None and (type(node_id) is not int or not 0 <= node_id < 1 << 31):
        raise ValueError(f"node_id is {node_id!r}, not a whole number from 0 to {(1 << 31) - 1}")
    node_config, ticking = NodeConfig.from_kafka(config or {}), clock or SystemClock()
    if mode == "read":
        return _reader(paths, node_config, transport or MemoryTransport(), ticking, node_id)
    if paths == [MEMORY]:
        way = transport or MemoryTransport()
        make = partial(in_memory, node_config, way, ticking, node_id, flush)
        return made_whole(partial(_in_memory, make, way, ticking))
    from pylog.attach.settings import Settings

    settings = Settings(
        paths=tuple(map(os.path.abspath, paths)), clock=ticking, flush=flush, config=node_config, given=config or {},
        node_id=node_id,
    )  # fmt: skip
    return _shared(settings, mode if transport is None else "own", transport or MemoryTransport(), wait)


def serve(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = MEMORY,
    listen: str | Sequence[str] = "127.0.0.1:0",
    *,
    advertise: str | Sequence[str] | None = None,
    flush: Flush | None = None,
    config: "NodeOptions | None" = None,
    **security: "Unpack[SecurityOptions]",
) -> "Server":
    """Open a log directory, or `":memory:"`, and serve it to Kafka clients; closing the server closes the log.

    See `open` and `Log.serve`, and what they raise.

    >>> with pylog.serve(":memory:", "127.0.0.1:0") as server, pylog.connect(server.bootstrap_servers) as log:
    ...     log.create_topic("clicks", partitions=2)
    <ConnectedTopic clicks with 2 partitions>
    """
    log = open(path, mode="own", flush=flush, config=config)
    try:
        server = log.serve(listen, advertise=advertise, **security)
    except BaseException:
        log.close()
        raise
    server.owned = log
    return server


def _reader(paths: list[str], config: NodeConfig, transport: Transport, clock: Clock, node_id: int | None) -> Log:
    node = reader(paths, config, transport, clock, node_id)
    again = partial(_reader, paths, config, MemoryTransport(), clock, node_id)
    return Log(paths[0], node, node, transport, clock, again=again)


def _in_memory(make: Callable[[], Broker], transport: Transport, clock: Clock) -> Log:
    node = make()
    return Log(MEMORY, node, node, transport, clock)


def _shared(
    settings: "Settings", mode: Literal["auto", "own", "attach"], transport: Transport, wait: float | None
) -> Log:
    """A log directory that other processes may use, too."""
    from pylog.attach.opening import owned_or_attached, when_free
    from pylog.attach.owned import Owned

    path, clock = settings.paths[0], settings.clock
    # A child that was forked is attached to its parent. It takes over as this process would.
    again = partial(_shared, settings, "auto" if mode == "auto" else "attach", MemoryTransport(), wait)

    def own() -> Log:
        held = Owned(settings, transport)
        return Log(path, held.broker, held, transport, clock, again=again)

    def attach(owner: "Notice", connection: "socket") -> Log:
        # An owner has no use for the client of a network.
        from pylog.attach.attachment import Attachment

        found = Attachment(settings, owner, connection, may_own=mode == "auto")
        return Log(path, found, found, found, clock, attachment=found, again=again)

    if mode == "own":
        return when_free(partial(made_whole, own), wait)
    found = owned_or_attached(settings, mode, wait, partial(made_whole, own), attach)
    return found or _reader(list(settings.paths), settings.config, MemoryTransport(), clock, settings.node_id)
