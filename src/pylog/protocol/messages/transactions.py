"""Producer ids and transactions. A transaction is known by its transactional id, its producer id and its epoch.

Transactions are of version 2 (KIP-890): every end of one raises the epoch, and a partition joins by being written to.
"""

from dataclasses import field
from typing import NamedTuple

from pylog.errors import InvalidRequest, PylogError
from pylog.protocol.messages.api import (
    AllNodesRequest,
    ApiRequest,
    ApiResponse,
    ByTopic,
    Named,
    NamesRequest,
    Partitioned,
    PartitionsRequest,
    api_message,
)
from pylog.protocol.messages.message import OURS
from pylog.record import TopicPartition


@api_message
class InitProducerIdResponse(ApiResponse):
    throttle_time_ms: int = 0
    error: PylogError | None = None
    producer_id: int = -1
    producer_epoch: int
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1


@api_message
class InitProducerIdRequest(ApiRequest[InitProducerIdResponse]):
    lowest = 3
    transactional_id: str | None
    """None: a producer id without transactions."""
    transaction_timeout_ms: int
    producer_id: int = -1
    """The producer's present id, where it asks for a higher epoch after an error (KIP-360)."""
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False

    def fault(self) -> InvalidRequest | None:
        """The error of a producer id without an epoch, or an epoch without an id."""
        if (self.producer_id == -1) == (self.producer_epoch == -1):
            return None
        return InvalidRequest("a producer that has a producer id has an epoch, too: give both or none")

    def refused(self, error: PylogError) -> InitProducerIdResponse:
        return InitProducerIdResponse(error=error, producer_epoch=-1)


@api_message
class AddPartitionsToTxnTopicResult:
    @api_message
    class AddPartitionsToTxnPartitionResult:
        partition_index: int
        error: PylogError | None = None

    name: str
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@api_message
class AddPartitionsToTxnResponse(ApiResponse):
    @api_message
    class AddPartitionsToTxnResult:
        transactional_id: str
        topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)

    throttle_time_ms: int = 0
    error: PylogError | None = None
    results_by_transaction: list[AddPartitionsToTxnResult] = field(default_factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)
    """Those of the one transaction, in versions below 4."""


PartitionsAdded = AddPartitionsToTxnResponse.AddPartitionsToTxnResult


@api_message
class AddPartitionsToTxnTopic:
    name: str
    partitions: list[int]


@api_message
class AddPartitionsToTxnRequest(ApiRequest[AddPartitionsToTxnResponse]):
    @api_message
    class AddPartitionsToTxnTransaction(
        Partitioned[PartitionsAdded, AddPartitionsToTxnTopicResult.AddPartitionsToTxnPartitionResult]
    ):
        """The message to the coordinator of one transactional id."""

        fields = ByTopic(answers="topic_results", results="results_by_partition", same="transactional_id")
        transactional_id: str
        producer_id: int
        producer_epoch: int
        verify_only: bool = False
        topics: list[AddPartitionsToTxnTopic]

    lowest = 4
    transactions: list[AddPartitionsToTxnTransaction] = field(default_factory=list)
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)
    """The one transaction, in versions below 4."""

    def refused(self, error: PylogError) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(results_by_transaction=[one.refused(error) for one in self.transactions])


PartitionsToAdd = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction


@api_message
class AddOffsetsToTxnResponse(ApiResponse):
    throttle_time_ms: int = 0
    error: PylogError | None = None


@api_message
class AddOffsetsToTxnRequest(ApiRequest[AddOffsetsToTxnResponse]):
    """A request to join the partition of `__consumer_offsets` with the group's offsets. Of version 1 alone."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


@api_message
class EndTxnResponse(ApiResponse):
    throttle_time_ms: int = 0
    error: PylogError | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    """The epoch of the next transaction."""


@api_message
class EndTxnRequest(ApiRequest[EndTxnResponse]):
    lowest = 5
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int = field(default=2, metadata=OURS)
    """Below 2 the producer keeps its epoch, as clients do that know nothing of KIP-890."""


ANY_TRANSACTION_VERSION = -1
"""A marker that ends a transaction of whatever version."""


class TxnMarkers(NamedTuple):
    """The end of one transaction in its partitions."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]
    transaction_version: int = 2


@api_message
class WriteTxnMarkersResponse(ApiResponse):
    @api_message
    class WritableTxnMarkerResult:
        @api_message
        class WritableTxnMarkerTopicResult:
            @api_message
            class WritableTxnMarkerPartitionResult:
                partition_index: int
                error: PylogError | None = None

            name: str
            partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)

        producer_id: int
        topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)


MarkersWritten = WriteTxnMarkersResponse.WritableTxnMarkerResult


@api_message
class WriteTxnMarkersRequest(ApiRequest[WriteTxnMarkersResponse]):
    """A request of a coordinator to end transactions, or of an administrator to end what no coordinator has."""

    @api_message
    class WritableTxnMarker(
        Partitioned[MarkersWritten, MarkersWritten.WritableTxnMarkerTopicResult.WritableTxnMarkerPartitionResult]
    ):
        @api_message
        class WritableTxnMarkerTopic:
            name: str
            partition_indexes: list[int]

        fields = ByTopic(parts="partition_indexes", same="producer_id")
        producer_id: int
        producer_epoch: int
        transaction_result: bool
        topics: list[WritableTxnMarkerTopic]
        coordinator_epoch: int
        transaction_version: int = 0

        @property
        def markers(self) -> TxnMarkers:
            """The same for the node."""
            return TxnMarkers(
                self.producer_id, self.producer_epoch, self.transaction_result, self.coordinator_epoch,
                tuple(self.partitions()), self.transaction_version,
            )  # fmt: skip

    markers: list[WritableTxnMarker] = field(default_factory=list)

    def refused(self, error: PylogError) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(markers=[one.refused(error) for one in self.markers])

    def first_error(self, answer: ApiResponse) -> PylogError | None:
        assert isinstance(answer, WriteTxnMarkersResponse), "it is the answer to this"
        there = {one.producer_id: one for one in answer.markers}
        untold = MarkersWritten(producer_id=-1)
        errors = (one.first_error(there.get(one.producer_id, untold)) for one in self.markers)
        return next((error for error in errors if error is not None), None)


STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
"""Kafka's names of the states that a transaction may be seen in."""
INNER_STATES = ("Dead", "PrepareEpochFence")
"""Those that it is never seen in."""


@api_message
class ListTransactionsResponse(ApiResponse):
    @api_message
    class TransactionState:
        transactional_id: str
        producer_id: int
        transaction_state: str

    throttle_time_ms: int = 0
    error: PylogError | None = None
    """InvalidRegularExpression, where the pattern is invalid."""
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)


@api_message
class ListTransactionsRequest(AllNodesRequest[ListTransactionsResponse]):
    parts = "transaction_states"
    state_filters: list[str] = field(default_factory=list)
    """Empty: all; else those in one of these states."""
    producer_id_filters: list[int] = field(default_factory=list)
    duration_filter: int = -1
    """Only transactions that have run longer, in ms."""
    transactional_id_pattern: str | None = None

    def empty(self) -> ListTransactionsResponse:
        return ListTransactionsResponse(
            unknown_state_filters=[one for one in self.state_filters if one not in (*STATES, *INNER_STATES)]
        )


@api_message
class DescribeTransactionsResponse(ApiResponse):
    @api_message
    class TransactionState:
        @api_message
        class TopicData:
            topic: str
            partitions: list[int]

        error: PylogError | None = None
        transactional_id: str
        transaction_state: str = ""
        transaction_timeout_ms: int = 0
        transaction_start_time_ms: int = 0
        """The time when the open transaction began, -1 where there is no open one."""
        producer_id: int = 0
        producer_epoch: int = 0
        topics: list[TopicData] = field(default_factory=list)

    throttle_time_ms: int = 0
    transaction_states: list[TransactionState] = field(default_factory=list)


@api_message
class DescribeTransactionsRequest(NamesRequest[DescribeTransactionsResponse]):
    fields = Named(
        "transactional_ids", "transaction_states", "transactional_id", DescribeTransactionsResponse.TransactionState
    )
    transactional_ids: list[str]


@api_message
class DescribeProducersResponse(ApiResponse):
    @api_message
    class TopicResponse:
        @api_message
        class PartitionResponse:
            @api_message
            class ProducerState:
                producer_id: int
                producer_epoch: int
                last_sequence: int = -1
                last_timestamp: int = -1
                coordinator_epoch: int
                current_txn_start_offset: int = -1
                """-1: it has no open transaction there."""

            partition_index: int
            error: PylogError | None = None
            active_producers: list[ProducerState] = field(default_factory=list)

        name: str
        partitions: list[PartitionResponse] = field(default_factory=list)

    throttle_time_ms: int = 0
    topics: list[TopicResponse] = field(default_factory=list)


ProducersOf = DescribeProducersResponse.TopicResponse.PartitionResponse


@api_message
class DescribeProducersRequest(PartitionsRequest[DescribeProducersResponse, ProducersOf]):
    @api_message
    class TopicRequest:
        name: str
        partition_indexes: list[int]

    fields = ByTopic(parts="partition_indexes")
    topics: list[TopicRequest] = field(default_factory=list)
