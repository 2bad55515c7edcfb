"""A log that another process owns, or none: read without a lock, answered like a node (`mode="read"`).

    read_only_topics         which topics there are
    read_only_partitions     their partitions, as they are published now
    read_only_purgatory      fetches that wait for more
    read_only_coordinators   groups and transactions, as their logs have them

`commitlog/read_only_partition` says what may be seen of a partition, and how it is read while its owner goes on. Logs
and indexes are read with `pread`, never mapped: a map of a file that the owner cuts would kill this process.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pylog.broker.describe import describe_log_dirs, describe_topics
from pylog.broker.describe_configs import describe_configs, looked_up
from pylog.broker.describe_users import describe_users
from pylog.broker.fetch import is_enough, read_parts
from pylog.broker.read_only_coordinators import ReadOnlyCoordinators
from pylog.broker.read_only_partitions import ReadOnlyPartitions
from pylog.broker.read_only_purgatory import ReadOnlyPurgatory
from pylog.broker.read_only_topics import ReadOnlyTopics
from pylog.commitlog.partition_reader import ReadablePartition
from pylog.config import NodeConfig, TopicConfig
from pylog.errors import Closed, PylogError, ReadOnly
from pylog.files import Files, Watch, join
from pylog.logdirs.foreign import require_log
from pylog.logdirs.log_directories import require_first_among
from pylog.logdirs.log_directory import META_PROPERTIES, read_identity
from pylog.metrics.snapshot import Metrics
from pylog.partition import Appended
from pylog.protocol.batch import Batch
from pylog.protocol.messages import (
    ClusterMetadata,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    ListedOffsets,
    ListOffsets,
    Message,
    Metadata,
    ResourceType,
    Session,
)
from pylog.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from pylog.protocol.messages.topics import DescribeLogDirsRequest
from pylog.protocol.messages.users import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from pylog.protocol.metadata_image import MetadataImage
from pylog.replica import list_part, read_part
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, completed
from pylog.runtime.signals import whole


class ReadOnlyBroker:
    """Answers messages about log directories without owning them. Thread-safe.

    Raises: LogNotFound (no such directory, or that with the list of topics is not among them), UnsupportedFormat (a
    newer version has written it). A directory that is replaced while it is read is DirectoryReplaced for the next Fetch
    that waits, and for every request for partitions.
    """

    def __init__(
        self, files: Files, paths: Sequence[str], *, config: NodeConfig, clock: Clock, node_id: int
    ) -> None:  # fmt: skip
        stored_id = str(node_id)
        for path in paths:
            require_log(files, path)
            properties = join(path, META_PROPERTIES)
            if files.stat(properties) is not None:
                stored_id = read_identity(files, properties).get("node.id", stored_id)
        require_first_among(files, paths)
        self.config = config
        self.node_id = node_id
        self._files = files
        self._paths = list(paths)
        self._clock = clock
        self._closed = False
        self._topics = ReadOnlyTopics(files, paths)
        self.configs = looked_up(lambda: self.image, config, stored_id)
        self._partitions = ReadOnlyPartitions(files, self._topics, self.configs)
        self._purgatory = ReadOnlyPurgatory(clock, self._read_on, self._watch)
        coordinators = ReadOnlyCoordinators(self._partitions.find, lambda: self.image, self.configs, clock)
        self._routes: dict[type, Callable[[Any, Session], Future[Any]]] = {
            Fetch: self._fetch,
            ListOffsets: lambda message, _: completed(self._list_offsets(message)),
            Metadata: lambda message, _: completed(self._metadata(message)),
            DescribeLogDirsRequest: lambda message, _: completed(describe_log_dirs(files, self._paths, {}, message)),
            DescribeUserScramCredentialsRequest: lambda message, _: completed(self._users(message)),
            DescribeConfigsRequest: lambda message, _: completed(self._configs(message)),
            **{kind: partial(self._ask_coordinators, answer) for kind, answer in coordinators.routes.items()},
        }
        self._topics.refresh()
        self._topics.check_in_place()

    @property
    def image(self) -> MetadataImage:
        """The topics as they were last looked at."""
        return self._topics.image

    @whole
    def handle(self, message: Message, session: Session) -> Future[Any]:
        """Answer a message. Raises Closed; ReadOnly for what would change the log."""
        if self._closed:
            raise Closed("this log is closed")
        if type(message) not in self._routes:
            raise self._unknown()
        return self._routes[type(message)](message, session)

    def _unknown(self) -> ReadOnly:
        return ReadOnly(
            f'{self._paths[0]} was opened with mode="read", where nothing is changed, and where its owner\'s secrets '
            '(producers, configs) are not known: open it with mode="own"'
        )

    def _ask_coordinators(self, answer: Callable[[Message], Any], message: Message, session: Session) -> Future[Any]:
        with self._topics.lock:
            # A topic of the coordinators' may be new.
            self._topics.refresh()
            return completed(answer(message))

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The effective config of a topic with these overrides."""
        return self._partitions.topic_config(overrides)

    def cleaning(self, topic: str, number: int) -> dict[str, Any] | None:
        """See `ReadOnlyPartitions.cleaning`."""
        return self._partitions.cleaning(topic, number)

    def partition(self, topic: str, number: int) -> ReadablePartition:
        """The partition as it is published now. Raises UnknownTopicOrPartition, NotLeaderOrFollower (it is on its way
        to another directory), Closed.
        """
        if self._closed:
            raise Closed("this log is closed")
        self._topics.check_in_place()
        return self._partitions.find(topic, number)

    # --- answers ---------------------------------------------------------------------------------------------------

    def _fetch(self, message: Fetch, session: Session) -> Future[Fetched]:
        fetched = self._read(message)
        if message.max_wait_ms <= 0 or is_enough(message, fetched):
            return completed(fetched)
        self._topics.check_in_place()
        return self._purgatory.park(message, self._clock.tick_ms() + message.max_wait_ms)

    def _watch(self) -> Watch | None:
        """A watch of the log; None where it lies in several directories, or nothing is published yet."""
        if not self._topics.is_published or len(self._paths) > 1:
            return None
        return self._files.watch(self._paths[0])

    def _read_on(self, message: Fetch) -> Fetched:
        """Answer a Fetch that waits, the short way where its one partition has only got longer."""
        return self._followed(message) or self._read(message)

    def _followed(self, message: Fetch) -> Fetched | None:
        """The batches of the one partition of a Fetch, where that has only grown since the last look.

        None in any other case, which takes a look at what may have become of the topic.
        """
        if len(message.parts) != 1 or len(self._paths) > 1:
            return None
        (asked,) = message.parts
        known = self._partitions.followed(asked.topic, asked.partition)
        if known is None:
            return None
        try:
            part = read_part(known, asked, isolation=message.isolation, max_bytes=message.max_bytes)
        except PylogError:
            return None
        return Fetched([part])

    def _read(self, message: Fetch) -> Fetched:
        def read(asked: FetchPart, max_bytes: int) -> FetchedPart:
            partition = self._partitions.find(asked.topic, asked.partition)
            return read_part(partition, asked, isolation=message.isolation, max_bytes=max_bytes)

        return read_parts(message, read)

    def _list_offsets(self, message: ListOffsets) -> ListedOffsets:
        self._topics.check_in_place()
        return ListedOffsets([list_part(self._partitions.find, part, message.isolation) for part in message.parts])

    def _metadata(self, message: Metadata) -> ClusterMetadata:
        self._topics.check_in_place()
        self._topics.refresh()
        return describe_topics(self.image, message, lambda _: self.node_id)

    def _users(self, message: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
        self._topics.check_in_place()
        self._topics.refresh()
        return describe_users(self.image, message)

    def _configs(self, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
        if any(one.resource_type == ResourceType.BROKER for one in message.resources):
            raise self._unknown()
        self._topics.refresh()
        return describe_configs(self.image, self.configs, self.node_id, message)

    def append(self, topic: str, partition: int, batch: Batch, now_ms: int) -> Appended:
        """Raises ReadOnly."""
        raise ReadOnly(f'{self._paths[0]} was opened with mode="read": open it with mode="own" to append')

    def hurry(self) -> bool:
        """Do nothing: no other thread has to be waited for."""
        return False

    def measure(self, found: Metrics) -> None:
        """Do nothing: the numbers are the owner's."""

    def close(self) -> None:
        """Answer the fetches that wait with Closed, and give the descriptors back."""
        self._closed = True
        self._purgatory.close()
        self._partitions.close()
        self._topics.close()
