"""The log as a process has it that does not own it: the owner's by a Unix socket, and the files for reading.

    Fetch             answered from the files, as in mode "read"
    any other one     sent to the owner
    after a takeover  all of them go to the node that is in this process now

It is the transport of the process's clients, and the node of its views. Clients ask again what had no answer: an
idempotent producer sends it with the numbers that it had, so a successor takes it once. In the moment of a takeover
what waits in the network goes to the node first, and what comes after it later: of two commits the later one counts.
"""

import logging
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from socket import socket

from pylog.attach.notice import Notice, places_of
from pylog.attach.owned import Owned
from pylog.attach.places import find_owner, is_open, peer_of, socket_path
from pylog.attach.settings import Settings
from pylog.attach.succession import Succession
from pylog.broker.broker import Broker
from pylog.broker.read_only_broker import ReadOnlyBroker
from pylog.client.cluster import Cluster
from pylog.client.network.address import Address
from pylog.client.network.network import Network
from pylog.client.network.transport import NetworkTransport
from pylog.commitlog.partition_reader import ReadablePartition
from pylog.config import NodeConfig, TopicConfig
from pylog.config.connection import ConnectionConfig
from pylog.errors import (
    Closed,
    DirectoryLocked,
    DirectoryReplaced,
    DurabilityUnknown,
    NetworkError,
    RequestTimedOut,
    SettingsDiffer,
)
from pylog.files import DiskFiles
from pylog.logdirs.log_directory import CleaningFacts
from pylog.metrics.snapshot import Metrics
from pylog.partition import Appended
from pylog.protocol.batch import Batch
from pylog.protocol.messages import Fetch, Message, ProduceRequest, ProduceResponse, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.metadata_image import MetadataImage
from pylog.record import TopicPartition
from pylog.runtime.future import Future, failed
from pylog.runtime.signals import WholeLock, pause
from pylog.runtime.sockets import UNIX
from pylog.transport import ANY_NODE, Handle, PendingAnswer

__all__ = ["Attachment"]

logger = logging.getLogger("pylog.attach")

CLIENT_ID = "attached"
OWNER_SECONDS = 30.0
"""How long an append waits for an owner."""
RESTS_MS, RESTS_MS_MAX = 4, 64
"""How long an owner that cannot be reached is left alone: it is in this machine, and another one comes soon."""


class Attachment:
    """A log that another process owns. `may_own`: whether this one takes over when that ends. Thread-safe."""

    def __init__(self, settings: Settings, owner: Notice, connection: socket, *, may_own: bool) -> None:
        self._settings = settings
        self._owner, self._peer, self._connection = owner, peer_of(connection), connection
        self._may_own = may_own
        self._files = DiskFiles(read_only=True)
        self._places = places_of(settings.paths)
        self._owned: Owned | None = None
        self._handle: Handle | None = None
        self._is_forked = False
        self._obstacle = ""
        """Why this process neither has nor is an owner, if that is so."""
        self._switching = WholeLock(threading.RLock())
        """Held while a message is put in, and while the way of all messages changes."""
        self._has_owner = threading.Event()
        self._has_owner.set()
        config = ConnectionConfig(
            reconnect_backoff_ms=RESTS_MS, reconnect_backoff_max_ms=RESTS_MS_MAX, retry_backoff_ms=RESTS_MS,
            retry_backoff_max_ms=RESTS_MS_MAX, allow_auto_create_topics=False,
        )  # fmt: skip
        with ExitStack() as opened:
            self._network = Network([self._address], config, settings.clock, None, self._admits, self._called)
            opened.callback(self._network.close)
            # The connection has shown that it is there.
            self._network.routes.reached(self._address)
            self._remote = NetworkTransport(self._network, config, settings.clock)
            self._cluster = Cluster(self, ANY_NODE, CLIENT_ID)
            self._reader = ReadOnlyBroker(
                DiskFiles(settings.config.max_open_files, read_only=True), settings.paths,
                config=NodeConfig.from_kafka(owner.config), clock=settings.clock, node_id=owner.node_id,
            )  # fmt: skip
            opened.callback(self._reader.close)
            self._succession = Succession(
                connection, settings.clock, self._has_owner.clear, self._seek, lambda: self._owned is not None
            )
            opened.pop_all()

    @property
    def node_id(self) -> int:
        """The id of the owner, and of its successors."""
        return self._owner.node_id

    @property
    def broker(self) -> Broker | None:
        """The node, if this process has taken over."""
        return None if self._owned is None else self._owned.broker

    @property
    def who(self) -> str:
        """The owner, for a message."""
        return self._owner.who

    # --- a transport -------------------------------------------------------------------------------------------------

    def attach(self, node: int, handle: Handle) -> None:
        """Nothing yet: the node may still fail to open."""

    def detach(self, node: int) -> None:
        """Do nothing: the node is closed, and says so itself."""

    def send(self, node: int, message: Message, session: Session) -> PendingAnswer:
        """See `Transport`."""
        if self._is_forked:
            return failed(_inherited())
        if self._handle is not None:
            return self._handle(message, session)
        if type(message) is Fetch:
            return self._reader.handle(message, session)
        return self._send_away(node, message, session)

    def _send_away(self, node: int, message: Message, session: Session) -> PendingAnswer:
        with self._switching:
            handle = self._handle
            if handle is None:
                return self._remote.send(node, message, session)
        return handle(message, session)

    def name(self, node: int) -> str:
        """See `Transport`."""
        if self._handle is not None:
            return "this process"
        if self._has_owner.is_set():
            return self._owner.who
        return f"{self._owner.who} which has ended ({self._obstacle or 'no other process owns the log yet'})"

    def _called(self, address: Address) -> str:
        return self.name(ANY_NODE)

    def forget(self, session: Session) -> None:
        """See `Transport`."""
        self._remote.forget(session)

    def abandon(self) -> None:  # pragma: no cover - in a forked child
        """See `Transport`."""
        self._is_forked = True
        self._succession.abandon()
        self._remote.abandon()

    # --- a node ------------------------------------------------------------------------------------------------------

    @property
    def _node(self) -> Broker | ReadOnlyBroker:
        return self._reader if self._owned is None else self._owned.broker

    @property
    def image(self) -> MetadataImage:
        """The topics of now."""
        if self._owned is None:
            self._reader.handle(MetadataRequest.of([]), Session(CLIENT_ID))
        return self._node.image

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The effective config of a topic with these overrides."""
        return self._node.topic_config(overrides)

    def cleaning(self, topic: str, number: int) -> CleaningFacts | None:
        """The state of compaction of a partition."""
        return self._node.cleaning(topic, number)

    def partition(self, topic: str, number: int) -> ReadablePartition:
        """The partition, for reading. Raises what the node does."""
        return self._node.partition(topic, number)

    def append(self, topic: str, partition: int, batch: Batch, now_ms: int) -> Appended:
        """Append a batch, in the owner. Raises DurabilityUnknown (the owner ended, or did not answer, while it had the
        batch), and what the owner's append raises.
        """
        if self._is_forked:  # pragma: no cover - in a forked child
            raise _inherited()
        if self._owned is not None:
            return self._owned.broker.append(topic, partition, batch, now_ms)
        key = TopicPartition(topic, partition)
        pause(self._has_owner, OWNER_SECONDS)
        leader = self._cluster.leader(key)
        asked = ProduceRequest.of(topic, partition, batch, topic_id=self._cluster.topic(topic).topic_id)
        try:
            answer: Future[ProduceResponse] = self._cluster.send(leader, asked)
            answer.drive()
            produced = answer.result()
        except (NetworkError, RequestTimedOut) as error:
            raise DurabilityUnknown(
                f"{topic}-{partition}: whether {self.who} has the records is not known: {error}"
            ) from error
        (told,) = asked.parts_of(produced)
        if told.error is not None:
            raise told.error
        return Appended(told.base_offset, told.base_offset + batch.count, told.log_append_time)

    # --- owners ------------------------------------------------------------------------------------------------------

    def _seek(self) -> socket | None:
        try:
            self._check_in_place()
            if self._may_own and self._take_over():
                return None
            return self._find()
        except Exception as error:  # noqa: BLE001 (no other thread looks for an owner)
            if str(error) != self._obstacle:
                self._obstacle = str(error)
                logger.warning("%s has no owner for this process: %s", self._settings.paths[0], error)
            return None

    def _check_in_place(self) -> None:
        if places_of(self._settings.paths) != self._places:
            raise DirectoryReplaced(f"{self._settings.paths[0]} is not the directory any more that this log has opened")

    def _take_over(self) -> bool:
        try:
            self._owned = Owned(self._settings.as_owner(self._owner), self)
        except DirectoryLocked as error:
            if error.is_left:
                raise
            return False
        self._network.retire(self._owned.broker.handle, self._switch)
        logger.info("this process owns %s now", self._settings.paths[0])
        self._has_owner.set()
        return True

    def _switch(self) -> bool:
        """Let messages go to the node of this process at once. Until then the network passes on what it has, and what
        comes. No thread waits for that, as the callbacks of futures run there.
        """
        with self._switching:
            if self._owned is None or self._network.has_work:
                return False
            self._handle = self._owned.broker.handle
            return True

    def _find(self) -> socket | None:
        found = find_owner(self._files, self._settings.paths[0])
        if found is None:
            return None
        owner, connection = found
        try:
            self._settings.check(owner)
        except SettingsDiffer:
            connection.close()
            raise
        self._owner, self._peer, self._connection = owner, peer_of(connection), connection
        self._obstacle = ""
        self._network.move(self._address)
        self._has_owner.set()
        return connection

    def _admits(self, connection: socket) -> bool:
        """Whether a connection leads to the owner whose settings were looked at. Another one may listen there by now,
        or the same process again, with other settings.
        """
        return peer_of(connection) == self._peer and is_open(self._connection)

    @property
    def _address(self) -> Address:
        return Address(f"{UNIX}{socket_path(self._settings.paths[0], self._owner.socket)}", 0)

    # --- the end -----------------------------------------------------------------------------------------------------

    def hurry(self) -> bool:
        """Let no answer wait long, if the node is in this process: gives whether it is."""
        return self._owned is not None and self._owned.hurry()

    def measure(self, found: Metrics) -> None:
        """Add the numbers of the connections to the owner, and of the node, if that is in this process."""
        self._network.measure(found)
        if self._owned is not None:
            self._owned.measure(found)

    def close(self) -> None:
        """Let go of the owner, or close the node that this process has."""
        if self._is_forked:  # pragma: no cover - in a forked child
            return
        self._succession.close()
        try:
            if self._owned is not None:
                self._owned.close()
        finally:
            self._network.close()
            self._reader.close()
            # What waits for an owner hears that this is closed.
            self._has_owner.set()


def _inherited() -> Closed:
    return Closed("this client was made before the process forked: make another one in the child")
