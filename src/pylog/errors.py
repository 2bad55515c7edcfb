"""Every exception that pylog raises on purpose: one tree.

    PylogError
      ProtocolError       what Kafka has an error code for; class names are Kafka's without `Exception`, and `code`,
                          `retriable` and `kafka_name` are Kafka's too (Kafka: common/protocol/Errors)
      StorageError        what happens to files on this machine
      Closed              a handle was used after its end
      Undelivered         what a producer could not deliver, said at its end
      ThreadsExhausted    the system gives this process no other thread
      ConcurrentUse, Wakeup, DeserializationError         what happens to consumers alone
      SchemaRegistryError, SchemaNotFound                 where schemas are looked up

Misuse (a wrong type, a negative offset) is ValueError or TypeError. A message names the fault, its place and the
remedy. All of them pickle.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple


class PylogError(Exception):
    """The root of the tree."""

    retriable: bool = False
    """Whether the same call may succeed later, without any other action."""


class Closed(PylogError):
    """A log, producer or consumer was used after it was closed, or in a process forked from the one that opened it."""


class Undelivered(PylogError):
    """Records of a producer were not delivered, and the program has not looked at their futures.

    `count` says how many, `errors` has the first of their errors, each once (Kafka's producer raises nothing).
    """

    def __init__(self, reason: str, count: int = 1, errors: Sequence[BaseException] = ()) -> None:
        self.count = count
        self.errors = tuple(errors)
        super().__init__(reason, count, self.errors)

    def __str__(self) -> str:
        return str(self.args[0])


class ThreadsExhausted(PylogError):
    """The system gives this process no other thread, and the call needs one: nothing of it was done.

    The same call works as soon as a thread can be had. Raise the limit of address space (`ulimit -v`) or of processes
    (`ulimit -u`, `pids.max` of the control group).
    """


class ConcurrentUse(PylogError):
    """Two threads were in one consumer at once, which only bears `wakeup` (Kafka: ConcurrentModificationException).

    Also: a listener polls or closes its consumer, or a signal's handler compacts a log in the middle of a compaction.
    """


class Wakeup(PylogError):
    """Somebody has called `wakeup`: the poll of the consumer ended, and nothing is lost (Kafka: WakeupException)."""


class DeserializationError(PylogError):
    """A record that a deserializer cannot read; the cause is what it raised.

    `record` is the record as it lies in the log. The position stays at it (Kafka: RecordDeserializationException).
    A table raises it, too, where `on_error` does not say otherwise.
    """

    def __init__(self, reason: str, record: Any = None, remedy: str = "`skip()` goes past it") -> None:
        self.reason = reason
        self.record = record
        self.remedy = remedy
        self.topic: str | None = getattr(record, "topic", None)
        self.partition: int | None = getattr(record, "partition", None)
        self.offset: int | None = getattr(record, "offset", None)
        super().__init__(reason, record, remedy)

    @property
    def may_pass(self) -> bool:
        """True where the record may be fine: the schema registry could not be asked."""
        cause = self.__cause__
        return isinstance(cause, PylogError) and not isinstance(cause, SchemaNotFound)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}, offset {self.offset}: {self.reason}; {self.remedy}"


class SchemaRegistryError(PylogError):
    """A registry of schemas cannot be asked, or refuses.

    `error_code`: Confluent's code of the refusal (42201 for an invalid schema), 50001 for one without a code.
    """

    error_code: int = 50001

    def __init__(self, message: str, error_code: int | None = None) -> None:
        super().__init__(message)
        self.error_code = error_code or self.error_code


class IncompatibleSchema(SchemaRegistryError):
    """A new version of a schema is not compatible with the ones before it, and is not registered."""

    error_code = 409


class SchemaNotFound(PylogError):
    """A registry has no schema of this id, or of this subject and version.

    `error_code`: 40401 (no such subject), 40402 (no such version), 40403 (no such schema).
    """

    error_code: int = 40403

    def __init__(self, message: str, error_code: int | None = None) -> None:
        super().__init__(message)
        self.error_code = error_code or self.error_code


# --- storage ---------------------------------------------------------------------------------------------------------


class StorageError(PylogError):
    """Something is wrong with files on this machine."""


class CorruptBatch(StorageError):
    """Bytes that fail a check: a CRC, a length, a bound, an order.

    `path`, `position` (bytes from the start of the file) and `offset` (of the record) say where, as far as it is known;
    `next_offset` is where reading can go on.
    """

    def __init__(
        self,
        reason: str,
        *,
        path: str | None = None,
        position: int | None = None,
        offset: int | None = None,
        next_offset: int | None = None,
    ) -> None:
        self.reason = reason
        self.path = path
        self.position = position
        self.offset = offset
        self.next_offset = next_offset
        known = {"position": position, "offset": offset}
        where = [path] if path is not None else []
        where += [f"{name} {value}" for name, value in known.items() if value is not None]
        super().__init__(f"{', '.join(where)}: {reason}" if where else reason)

    @classmethod
    def on_reading(
        cls, what: str, *, path: str | None, position: int, offset: int, next_offset: int | None
    ) -> "CorruptBatch":  # fmt: skip
        """The error for records that a reader asks for and that are damaged, with what can be done about it."""
        advice = "run `pylog verify` to see all damage, and `pylog repair` to give up what cannot be read"
        if next_offset is not None:
            advice = (
                f"offsets {offset} to {next_offset - 1} are damaged and cannot be read; go on at offset {next_offset} "
                f"(a consumer's `skip()` does), or {advice}"
            )
        return cls(f"{what}; {advice}", path=path, position=position, offset=offset, next_offset=next_offset)

    def __reduce__(self) -> tuple[object, ...]:
        return _corrupt_batch, (type(self), self.reason, self.path, self.position, self.offset, self.next_offset)


def _corrupt_batch(kind: type[CorruptBatch], reason: str, path: str | None, *where: int | None) -> CorruptBatch:
    position, offset, next_offset = where
    return kind(reason, path=path, position=position, offset=offset, next_offset=next_offset)


class PartitionFailed(StorageError):
    """A write or a sync of the partition failed earlier; it takes no more appends until the log is opened again."""


class DurabilityUnknown(PartitionFailed):
    """The disk refused while this append was in flight: whether its records are on disk is unknown."""


class DiskFull(StorageError):
    """There is no room for the write; nothing of it was kept. Appends work again as soon as there is room."""

    retriable = True


class DirectoryLocked(StorageError):
    """Another process owns the log directory; `pid` is its process id, where the lock file has it.

    `is_left`: the owner has ended, and `pid` is a process that was forked from it and still has the lock: end that.
    """

    def __init__(self, message: str, pid: int | None = None, is_left: bool = False) -> None:
        self.pid = pid
        self.is_left = is_left
        super().__init__(message, pid, is_left)

    def __str__(self) -> str:
        return str(self.args[0])


class LogDiverged(StorageError):
    """Two logs of one partition have other records in the same leader epoch, so none of them can be said to be right.

    Nothing was cut. Keep one of them: delete the topic in the other one, and follow again.
    """


class NotOwner(StorageError):
    """The call needs the process that owns the log directory, and this one is attached to it."""


class NoOwner(StorageError):
    """No process owns the log directory, or its owner lets no other process in."""


class SettingsDiffer(StorageError):
    """A process asks for settings that the owner of the log directory does not go by."""


class DirectoryReplaced(StorageError):
    """The log directory was removed, or replaced by another one, while this log was open: open it again."""


class UnsupportedFormat(StorageError):
    """The files were written by a newer version, or by something else."""


class LogNotFound(StorageError):
    """There is no log where one was to be read."""


class Truncated(StorageError):
    """The records that a fetch had found were cut off the log before they were sent. Fetch again."""


class ReadOnly(StorageError):
    """The log, or the directory it lies in, cannot be written to."""


# --- protocol --------------------------------------------------------------------------------------------------------

_BY_CODE: dict[int, type["ProtocolError"]] = {}


class ProtocolError(PylogError):
    """An error with a code of Kafka's."""

    code: int = -1
    kafka_name: str = "UNKNOWN_SERVER_ERROR"

    def __init_subclass__(cls, code: int | None = None, retriable: bool = False, kafka_name: str | None = None) -> None:
        if code is not None:
            cls.code = code
            cls.retriable = retriable
            cls.kafka_name = kafka_name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).upper()
            _BY_CODE[code] = cls


class RecordError(NamedTuple):
    """The error of one record of a batch (Kafka: RecordError; KIP-467)."""

    index: int  # type: ignore[assignment]  # its place in the batch; hides tuple.index, which is not needed
    message: str


class BatchRefused(ProtocolError):
    """A batch with an invalid record or field was refused as a whole (Kafka: RecordValidationException).

    `record_errors` lists the invalid records; () where the batch itself is invalid.
    """

    def __init__(self, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        self.record_errors = tuple(record_errors)
        super().__init__(message)


def for_code(code: int) -> type[ProtocolError]:
    """The class of a Kafka error code; UnknownServer for one that is not known. 0 means no error: ValueError."""
    if code == 0:
        raise ValueError("code 0 is no error")
    return _BY_CODE.get(code, UnknownServer)


# One line a class, in the order of Kafka's codes.
# fmt: off
class UnknownServer(ProtocolError, code=-1, kafka_name="UNKNOWN_SERVER_ERROR"):
    """The node failed for another reason."""
class OffsetOutOfRange(ProtocolError, code=1): """The offset is outside the range of the partition's log."""
class CorruptRecord(ProtocolError, code=2, retriable=True, kafka_name="CORRUPT_MESSAGE"):
    """A record or batch fails its checks."""
class UnknownTopicOrPartition(ProtocolError, code=3, retriable=True):
    """The topic or partition is not there, or not on this node."""
class InvalidFetchSize(ProtocolError, code=4): """The fetch size is not valid."""
class LeaderNotAvailable(ProtocolError, code=5, retriable=True): """The partition has no leader for the moment."""
class NotLeaderOrFollower(ProtocolError, code=6, retriable=True):
    """This node is not the leader (or follower) of the partition."""
class RequestTimedOut(ProtocolError, code=7, retriable=True):
    """The request was not answered in time; it may have had its effect."""
class BrokerNotAvailable(ProtocolError, code=8): """The node is not available."""
class ReplicaNotAvailable(ProtocolError, code=9, retriable=True): """The replica is not available on this node."""
class RecordTooLarge(ProtocolError, code=10, kafka_name="MESSAGE_TOO_LARGE"):
    """The record or batch is larger than the topic or the client allows."""
class ControllerMoved(ProtocolError, code=11, kafka_name="STALE_CONTROLLER_EPOCH"):
    """The controller moved to another node."""
class OffsetMetadataTooLarge(ProtocolError, code=12): """The metadata of a committed offset is too large."""
class NetworkError(ProtocolError, code=13, retriable=True, kafka_name="NETWORK_EXCEPTION"):
    """The node cannot be reached, or went away."""
class CoordinatorLoadInProgress(ProtocolError, code=14, retriable=True):
    """The coordinator is still replaying its log."""
class CoordinatorNotAvailable(ProtocolError, code=15, retriable=True): """There is no coordinator for the moment."""
class NotCoordinator(ProtocolError, code=16, retriable=True): """This node is not the coordinator."""
class InvalidTopic(ProtocolError, code=17, kafka_name="INVALID_TOPIC_EXCEPTION"):
    """The topic's name is not valid, or may not be used like this."""
class RecordBatchTooLarge(ProtocolError, code=18, kafka_name="RECORD_LIST_TOO_LARGE"):
    """The batch is larger than a segment."""
class NotEnoughReplicas(ProtocolError, code=19, retriable=True):
    """Fewer replicas are in sync than min.insync.replicas; nothing was written."""
class NotEnoughReplicasAfterAppend(ProtocolError, code=20, retriable=True):
    """The records are in the log, but on fewer replicas than min.insync.replicas."""
class InvalidRequiredAcks(ProtocolError, code=21): """acks must be 0, 1 or all."""
class IllegalGeneration(ProtocolError, code=22): """The generation is not the group's current one."""
class InconsistentGroupProtocol(ProtocolError, code=23): """The members of the group have no common protocol."""
class InvalidGroupId(ProtocolError, code=24): """The group id is not valid."""
class UnknownMemberId(ProtocolError, code=25): """The member is not known to the group."""
class InvalidSessionTimeout(ProtocolError, code=26): """The session timeout is outside the allowed range."""
class RebalanceInProgress(ProtocolError, code=27): """The group is rebalancing: join again."""
class InvalidCommitOffsetSize(ProtocolError, code=28): """The committed offset data is too large."""
class TopicAuthorization(ProtocolError, code=29, kafka_name="TOPIC_AUTHORIZATION_FAILED"):
    """Not authorised for the topic."""
class GroupAuthorization(ProtocolError, code=30, kafka_name="GROUP_AUTHORIZATION_FAILED"):
    """Not authorised for the group."""
class ClusterAuthorization(ProtocolError, code=31, kafka_name="CLUSTER_AUTHORIZATION_FAILED"):
    """Not authorised for the cluster."""
class InvalidTimestamp(BatchRefused, code=32): """A record's timestamp is outside the range that the topic allows."""
class UnsupportedSaslMechanism(ProtocolError, code=33): """The SASL mechanism is not supported."""
class IllegalSaslState(ProtocolError, code=34): """The request does not fit the state of the SASL handshake."""
class UnsupportedVersion(ProtocolError, code=35): """The version of the request is not supported."""
class TopicAlreadyExists(ProtocolError, code=36): """A topic of that name exists."""
class InvalidPartitions(ProtocolError, code=37): """The number of partitions is not valid."""
class InvalidReplicationFactor(ProtocolError, code=38): """The replication factor is not valid."""
class InvalidReplicaAssignment(ProtocolError, code=39): """The assignment of replicas is not valid."""
class InvalidConfig(ProtocolError, code=40): """A configuration is not known, or its value is not valid."""
class NotController(ProtocolError, code=41, retriable=True): """This node is not the controller."""
class InvalidRequest(ProtocolError, code=42): """The request makes no sense."""
class UnsupportedForMessageFormat(ProtocolError, code=43): """The log's message format does not support the request."""
class PolicyViolation(ProtocolError, code=44): """A policy forbids the request."""
class OutOfOrderSequence(ProtocolError, code=45, kafka_name="OUT_OF_ORDER_SEQUENCE_NUMBER"):
    """The sequence number is not the next of its producer."""
class DuplicateSequence(ProtocolError, code=46, kafka_name="DUPLICATE_SEQUENCE_NUMBER"):
    """The sequence number was seen before."""
class InvalidProducerEpoch(ProtocolError, code=47): """The producer's epoch is older than the one known."""
class InvalidTxnState(ProtocolError, code=48): """The request does not fit the state of the transaction."""
class InvalidPidMapping(ProtocolError, code=49, kafka_name="INVALID_PRODUCER_ID_MAPPING"):
    """The producer id is not the one of its transactional id."""
class InvalidTxnTimeout(ProtocolError, code=50, kafka_name="INVALID_TRANSACTION_TIMEOUT"):
    """The transaction timeout is larger than allowed."""
class ConcurrentTransactions(ProtocolError, code=51, retriable=True):
    """Another operation on the transaction is in progress."""
class TransactionCoordinatorFenced(ProtocolError, code=52):
    """The transaction coordinator's epoch is older than the one known."""
class TransactionalIdAuthorization(ProtocolError, code=53, kafka_name="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
    """Not authorised for the transactional id."""
class SecurityDisabled(ProtocolError, code=54): """Security is switched off."""
class OperationNotAttempted(ProtocolError, code=55): """The operation was not tried, because an earlier one failed."""
class KafkaStorage(ProtocolError, code=56, retriable=True, kafka_name="KAFKA_STORAGE_ERROR"):
    """A log directory failed."""
class LogDirNotFound(ProtocolError, code=57): """The log directory is not known."""
class SaslAuthentication(ProtocolError, code=58, kafka_name="SASL_AUTHENTICATION_FAILED"):
    """SASL authentication failed."""
class UnknownProducerId(ProtocolError, code=59): """The producer id is not known: its records may have been deleted."""
class ReassignmentInProgress(ProtocolError, code=60): """A reassignment of the partition is in progress."""
class DelegationTokenDisabled(ProtocolError, code=61, kafka_name="DELEGATION_TOKEN_AUTH_DISABLED"):
    """Delegation tokens are switched off."""
class DelegationTokenNotFound(ProtocolError, code=62): """The delegation token is not known."""
class DelegationTokenOwnerMismatch(ProtocolError, code=63): """The delegation token belongs to another principal."""
class UnsupportedByAuthentication(ProtocolError, code=64, kafka_name="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
    """The connection may not ask for delegation tokens."""
class DelegationTokenAuthorization(ProtocolError, code=65, kafka_name="DELEGATION_TOKEN_AUTHORIZATION_FAILED"):
    """Not authorised for the delegation token."""
class DelegationTokenExpired(ProtocolError, code=66): """The delegation token has expired."""
class InvalidPrincipalType(ProtocolError, code=67): """The principal type is not supported."""
class GroupNotEmpty(ProtocolError, code=68, kafka_name="NON_EMPTY_GROUP"): """The group is not empty."""
class GroupIdNotFound(ProtocolError, code=69): """The group is not known."""
class FetchSessionIdNotFound(ProtocolError, code=70, retriable=True): """The fetch session is not known."""
class InvalidFetchSessionEpoch(ProtocolError, code=71, retriable=True): """The fetch session's epoch is not valid."""
class ListenerNotFound(ProtocolError, code=72, retriable=True): """The listener is not known."""
class TopicDeletionDisabled(ProtocolError, code=73): """Deleting topics is switched off."""
class FencedLeaderEpoch(ProtocolError, code=74, retriable=True): """The leader epoch is older than the node's."""
class UnknownLeaderEpoch(ProtocolError, code=75, retriable=True): """The leader epoch is newer than the node's."""
class UnsupportedCompressionType(ProtocolError, code=76): """The compression type is not supported."""
class StaleBrokerEpoch(ProtocolError, code=77): """The broker epoch is older than the controller's."""
class OffsetNotAvailable(ProtocolError, code=78, retriable=True): """The leader does not know its high watermark yet."""
class MemberIdRequired(ProtocolError, code=79): """The member has to join again with the id it was given."""
class PreferredLeaderNotAvailable(ProtocolError, code=80, retriable=True): """The preferred leader is not available."""
class GroupMaxSizeReached(ProtocolError, code=81): """The group is full."""
class FencedInstanceId(ProtocolError, code=82): """Another member took over the static member's instance id."""
class EligibleLeadersNotAvailable(ProtocolError, code=83, retriable=True): """No eligible leader is available."""
class ElectionNotNeeded(ProtocolError, code=84, retriable=True): """The election is not needed."""
class NoReassignmentInProgress(ProtocolError, code=85): """There is no reassignment to speak of."""
class GroupSubscribedToTopic(ProtocolError, code=86): """The group is subscribed to the topic."""
class InvalidRecord(BatchRefused, code=87): """A record is not valid."""
class UnstableOffsetCommit(ProtocolError, code=88, retriable=True):
    """There are transactional offset commits that are not decided."""
class ThrottlingQuotaExceeded(ProtocolError, code=89, retriable=True): """The quota is used up: wait."""
class ProducerFenced(ProtocolError, code=90): """A newer producer with the same transactional id took over."""
class ResourceNotFound(ProtocolError, code=91): """The resource is not known."""
class DuplicateResource(ProtocolError, code=92): """The resource exists."""
class UnacceptableCredential(ProtocolError, code=93): """The credential is not acceptable."""
class InconsistentVoterSet(ProtocolError, code=94): """The voter sets differ."""
class InvalidUpdateVersion(ProtocolError, code=95): """The update version is not valid."""
class FeatureUpdateFailed(ProtocolError, code=96): """The feature could not be updated."""
class PrincipalDeserialization(ProtocolError, code=97, kafka_name="PRINCIPAL_DESERIALIZATION_FAILURE"):
    """The principal could not be deserialised."""
class SnapshotNotFound(ProtocolError, code=98): """The snapshot is not known."""
class PositionOutOfRange(ProtocolError, code=99): """The position is outside the snapshot."""
class UnknownTopicId(ProtocolError, code=100, retriable=True): """The topic id is not known."""
class DuplicateBrokerRegistration(ProtocolError, code=101): """The broker id is in use."""
class BrokerIdNotRegistered(ProtocolError, code=102): """The broker id is not registered."""
class InconsistentTopicId(ProtocolError, code=103, retriable=True): """The topic id is not the one of the topic."""
class InconsistentClusterId(ProtocolError, code=104): """The cluster id is not the node's."""
class TransactionalIdNotFound(ProtocolError, code=105): """The transactional id is not known."""
class FetchSessionTopicId(ProtocolError, code=106, retriable=True, kafka_name="FETCH_SESSION_TOPIC_ID_ERROR"):
    """The fetch session uses topic ids in another way."""
class IneligibleReplica(ProtocolError, code=107): """The replica may not join the in-sync set."""
class NewLeaderElected(ProtocolError, code=108): """A new leader was elected."""
class OffsetMovedToTieredStorage(ProtocolError, code=109): """The offset was moved to tiered storage."""
class FencedMemberEpoch(ProtocolError, code=110): """The member epoch is not the current one."""
class UnreleasedInstanceId(ProtocolError, code=111): """The instance id is still held by another member."""
class UnsupportedAssignor(ProtocolError, code=112): """The assignor is not supported."""
class StaleMemberEpoch(ProtocolError, code=113): """The member epoch is older than the current one."""
class MismatchedEndpointType(ProtocolError, code=114): """The endpoint is of another kind."""
class UnsupportedEndpointType(ProtocolError, code=115): """The endpoint kind is not supported."""
class UnknownControllerId(ProtocolError, code=116): """The controller id is not known."""
class UnknownSubscriptionId(ProtocolError, code=117): """The subscription id is not known."""
class TelemetryTooLarge(ProtocolError, code=118): """The telemetry is too large."""
class InvalidRegistration(ProtocolError, code=119): """The registration is not valid."""
class TransactionAbortable(ProtocolError, code=120): """The transaction has to be aborted."""
class InvalidRecordState(ProtocolError, code=121): """The record is in another state."""
class ShareSessionNotFound(ProtocolError, code=122, retriable=True): """The share session is not known."""
class InvalidShareSessionEpoch(ProtocolError, code=123, retriable=True): """The share session's epoch is not valid."""
class FencedStateEpoch(ProtocolError, code=124): """The state epoch is older than the one known."""
class InvalidVoterKey(ProtocolError, code=125): """The voter key is not the one expected."""
class DuplicateVoter(ProtocolError, code=126): """The voter is there already."""
class VoterNotFound(ProtocolError, code=127): """The voter is not known."""
class InvalidRegularExpression(ProtocolError, code=128): """The regular expression is not valid."""
class RebootstrapRequired(ProtocolError, code=129): """The client has to bootstrap again."""
class StreamsInvalidTopology(ProtocolError, code=130): """The topology is not valid."""
class StreamsInvalidTopologyEpoch(ProtocolError, code=131): """The topology's epoch is not valid."""
class StreamsTopologyFenced(ProtocolError, code=132): """The topology's epoch is older than the one known."""
class ShareSessionLimitReached(ProtocolError, code=133, retriable=True):
    """There are as many share sessions as there may be."""
# fmt: on


COORDINATOR_AWAY = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator, NetworkError, RequestTimedOut)
"""What says that a coordinator will be there soon: a client asks again, after a while."""


class SslAuthentication(ProtocolError):
    """TLS with a node failed: a certificate is not trusted, or is for another host (SslAuthenticationException)."""


class NotLocal(PylogError):
    """The call needs the files of a log, and this one is reached by a network: open the directory on its machine."""


class BufferExhausted(RequestTimedOut):
    """The producer's buffer stayed full for `max_block_ms` (Kafka: BufferExhaustedException)."""


class RefusedWithBatch(ProtocolError):
    """The record is good, and was not appended, as it was in a batch with others that were refused: send it again
    (KIP-467; Kafka: KafkaException).
    """


class TransactionAborted(ProtocolError):
    """The record was not sent: its transaction was aborted before (Kafka: TransactionAbortedException)."""


class LogTruncation(OffsetOutOfRange):
    """The record that a consumer read last is not in the log any more, and `auto_offset_reset` is "none": the log was
    cut, as by a power cut where nothing was synced, and may have got other records since (Kafka:
    LogTruncationException, KIP-320). `offset` is the first one that is not known to be what was read: `seek` there.
    """

    def __init__(self, message: str, offset: int = -1) -> None:
        self.offset = offset
        super().__init__(message, offset)

    def __str__(self) -> str:
        return str(self.args[0])


class NoOffsetForPartition(ProtocolError):
    """A consumer has no position and `auto_offset_reset` is "none" (Kafka: NoOffsetForPartitionException)."""


class CommitFailed(ProtocolError):
    """Offsets were not committed, and never will be by this member: the group has moved on, and others may read its
    partitions by now. Poll, which joins the group again, and take up the work from there
    (Kafka: CommitFailedException).
    """


class PartitionFull(PolicyViolation):
    """The partition has reached its bound, and its `pylog.full.policy` lets nothing go for new records. Ours: Kafka
    drops the oldest. Try again when records were deleted.
    """

    retriable = True
