"""A log that another process owns, or none: read without a lock, answered like a node (`mode="read"`).

    read_only_catalogue      which topics there are, and their partitions as they are published now
    read_only_purgatory      fetches that wait for more
    read_only_coordinators   groups and transactions, as their logs have them

`commitlog/read_only_partition` says what may be seen of a partition, and how it is read while its owner goes on. Logs
and indexes are read with `pread`, never mapped: a map of a file that the owner cuts would kill this process.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

from pylog.broker.describe import describe_topics
from pylog.broker.descriptions import Routes, at_once, descriptions
from pylog.broker.fetch import is_enough, read_parts
from pylog.broker.read_only_catalogue import ReadOnlyCatalogue
from pylog.broker.read_only_coordinators import ReadOnlyCoordinators
from pylog.broker.read_only_purgatory import ReadOnlyPurgatory
from pylog.commitlog.partition_reader import ReadablePartition
from pylog.config import NodeConfig
from pylog.errors import Closed, PylogError, ReadOnly
from pylog.files import Files
from pylog.metrics.snapshot import Metrics
from pylog.partition import Appended
from pylog.protocol.batch import Batch
from pylog.protocol.isolation import isolation_of
from pylog.protocol.messages import (
    NO_ID,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    Message,
    ResourceType,
    Session,
)
from pylog.protocol.messages.configs import DescribeConfigsRequest
from pylog.protocol.messages.records import ListOffsetsRequest, ListOffsetsResponse
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.protocol.metadata_image import MetadataImage
from pylog.replica import list_offset, read_part
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, completed
from pylog.runtime.signals import WHOLE
from pylog.transport import PendingAnswer, Route


class ReadOnlyBroker:
    """Answers messages about log directories without owning them. Thread-safe.

    Raises what `ReadOnlyCatalogue` raises. A directory that is replaced while it is read is DirectoryReplaced for the
    next Fetch that waits, and for every other request; DescribeLogDirs alone describes the one that is there now.
    """

    def __init__(
        self, files: Files, paths: Sequence[str], *, config: NodeConfig, clock: Clock, node_id: int
    ) -> None:  # fmt: skip
        self.config = config
        self.node_id = node_id
        self._path = paths[0]
        self._clock = clock
        self._closed = False
        self.node = node = ReadOnlyCatalogue(files, paths, config, node_id)
        self.configs = node.configs
        self.topic_config = node.topic_config
        self.cleaning = node.cleaning
        self._purgatory = ReadOnlyPurgatory(clock, partial(self._read, again=True), node.watch)
        described = descriptions(files, list(paths), {}, node.now, node.configs, node_id)
        self._routes: Routes = {
            Fetch: self._fetch,
            ListOffsetsRequest: at_once(self._list_offsets),
            MetadataRequest: at_once(self._metadata),
            **described,
            DescribeConfigsRequest: partial(self._configs, described[DescribeConfigsRequest]),
            **{kind: at_once(answer) for kind, answer in ReadOnlyCoordinators(node, clock).routes.items()},
        }

    @property
    def image(self) -> MetadataImage:
        """The topics as they were last looked at."""
        return self.node.image

    def handle(self, message: Message, session: Session) -> PendingAnswer:
        """Answer a message. Raises Closed; ReadOnly for what would change the log, and for the configs of its owner."""
        if self._closed:
            raise Closed("this log is closed")
        with WHOLE:
            return self._routes.get(type(message), self._refuse)(message, session)

    def _refuse(self, message: Message, session: Session) -> NoReturn:
        raise ReadOnly(
            f'{self._path} was opened with mode="read", where nothing is changed, and where its owner\'s secrets '
            '(producers, configs) are not known: open it with mode="own"'
        )

    def partition(self, topic: str, number: int) -> ReadablePartition:
        """The partition as it is published now. Raises UnknownTopicOrPartition, NotLeaderOrFollower (it is on its way
        to another directory), Closed.
        """
        if self._closed:
            raise Closed("this log is closed")
        self.node.check_in_place()
        return self.node.find(topic, number)

    # --- answers ---------------------------------------------------------------------------------------------------

    def _fetch(self, message: Fetch, session: Session) -> Future[Fetched]:
        fetched = self._read(message)
        if message.max_wait_ms <= 0 or is_enough(message, fetched):
            return completed(fetched)
        self.node.check_in_place()
        return self._purgatory.park(message, self._clock.tick_ms() + message.max_wait_ms)

    def _read(self, message: Fetch, *, again: bool = False) -> Fetched:
        """Read what there is now; `again`: the short way where a Fetch has one partition, and that has only got longer
        since the last look.
        """

        def read(asked: FetchPart, max_bytes: int) -> FetchedPart:
            grown = self.node.grown(asked.topic, asked.partition) if again and len(message.parts) == 1 else None
            if grown is not None and asked.topic_id in (NO_ID, grown.topic_id):
                with suppress(PylogError):
                    return read_part(grown, asked, isolation=message.isolation, max_bytes=max_bytes)
            found = self.node.find(asked.topic, asked.partition)
            self.node.image.check_id(asked.topic, asked.topic_id)
            return read_part(found, asked, isolation=message.isolation, max_bytes=max_bytes)

        return read_parts(message, read)

    def _list_offsets(self, message: ListOffsetsRequest) -> ListOffsetsResponse:
        self.node.check_in_place()
        find, isolation = self.node.find, isolation_of(message.isolation_level)
        return message.answered(lambda key, asked: list_offset(find(*key), asked, isolation))

    def _metadata(self, message: MetadataRequest) -> MetadataResponse:
        return describe_topics(self.node.now(), message, lambda _: self.node_id)

    def _configs(self, describe: Route, message: DescribeConfigsRequest, session: Session) -> PendingAnswer:
        if any(one.resource_type == ResourceType.BROKER for one in message.resources):
            self._refuse(message, session)
        return describe(message, session)

    def append(self, topic: str, partition: int, batch: Batch, now_ms: int) -> Appended:
        """Raises ReadOnly."""
        raise ReadOnly(f'{self._path} was opened with mode="read": open it with mode="own" to append')

    def hurry(self) -> bool:
        """Do nothing: no other thread has to be waited for."""
        return False

    def measure(self, found: Metrics) -> None:
        """Do nothing: the numbers are the owner's."""

    def close(self) -> None:
        """Answer the fetches that wait with Closed, and give the descriptors back."""
        self._closed = True
        self._purgatory.close()
        self.node.close()
