"""The effects of a coordinator, which is a machine: an event and the time in, effects out.

    event -> machine -> [Append, Answer, WriteMarkers, DropBefore, Ask...] -> its host

It owns one partition of an internal topic. What has to outlive it changes only by `replay`: of the log when it takes
over, and of its own `Append` when that is in the log. So its state is the replay of its log, whatever happens between.
Waiting members and deadlines are not in the log, as they end with the process. Neither is a state that a machine may
have ahead of its log: a crash takes it away, and `write_down` brings it in.

A host carries effects out in their order. An effect behind an `Append` waits until its records are as safe as the log
promises, unless it is lazy. It is dropped where the append failed: the machine is told by `append_failed`. An
answer without an `Append` waits for nothing. One that tells of what was replayed, which a crash must not make untrue,
is in an `Append` without records, and waits for what it tells of (`tells`): a group, or a transactional id, does not
wait for the records of another one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self
from uuid import UUID

from pylog.errors import PylogError
from pylog.protocol.messages import Session, TxnMarkers
from pylog.record import TopicPartition


class Now(NamedTuple):
    """The time as a machine gets it, in ms: `wall` for what is written down, `tick` for deadlines."""

    wall: int
    tick: int


class LogRecord(NamedTuple):
    """A record of a coordinator's log; without a value it says that the key is nothing any more."""

    key: bytes
    value: bytes | None


class Stamp(NamedTuple):
    """The producer that wrote a record as part of a transaction."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Answer:
    """The answer to the message that came with this ticket."""

    ticket: int
    message: object


@dataclass(slots=True)
class Append:
    """Records for the coordinator's own partition, as one batch; in the transaction of `stamp`, if there is one.

    Without records nothing is appended, and the answers are given when the log is safe up to `tells`.
    """

    records: list[LogRecord]
    answers: list[Answer] = field(default_factory=list)
    """What is answered when they are safe."""
    stamp: Stamp | None = None
    is_lazy: bool = False
    """True if the answers, and what stands behind it, need not wait until the records are safe."""
    says: list[Any] = field(default_factory=list)
    """The values of the records, in their order, where the machine has all of them at hand."""
    tells: int = 0
    """Where that ends in the log of which the answers tell, where there are no records."""
    context: Any = None
    """The machine's own: what it has to know if the append fails."""


@dataclass(slots=True)
class WriteMarkers:
    """End a transaction in its partitions; `markers_written` tells the machine how each of them went."""

    transactional_id: str
    markers: TxnMarkers


@dataclass(slots=True)
class DropBefore:
    """Drop the records of the log below an offset: what they say is said again from there on, and that is safe."""

    offset: int


@dataclass(slots=True)
class Ask:
    """A question to another coordinator; `told` is the event of its answer, or of the error in its place."""

    message: object
    told: "Callable[[Any, Now], list[Effect]]"


Effect = Append | Answer | WriteMarkers | DropBefore | Ask


class TopicInfo(NamedTuple):
    """The facts about a topic that a coordinator needs."""

    id: UUID
    partitions: int


class TopicsView(Protocol):
    """The topics there are now."""

    def named(self) -> Mapping[str, TopicInfo]:
        """All of them; another mapping when they have changed, the same object otherwise."""


NewProducerId = Callable[[], int]


class Coordinator(Protocol):
    """One coordinator. Not thread-safe: its host lets one event in at a time."""

    def replay(self, record: LogRecord, stamp: Stamp | None = None) -> None:
        """Take over a record of its log. Raises UnsupportedFormat, CorruptBatch: the host logs it and goes on."""

    def appended(self, append: Append, end: int) -> None:
        """Take over an Append of its own that is in the log, as if each record were replayed. The log ends at `end`."""

    safe_end: int
    """Up to where the log is safe: the host writes it before each event."""

    def replay_marker(self, stamp: Stamp, *, committed: bool) -> None:
        """Take over the end of a transaction in its log."""

    def take_over(self, now: Now) -> list[Effect]:
        """Begin to answer: all of its log was replayed."""

    def handle(self, message: object, session: Session, ticket: int, now: Now) -> list[Effect]:
        """Answer a message, now or later, in an `Answer` with its ticket."""

    def append_failed(self, append: Append, error: PylogError, now: Now) -> list[Effect]:
        """Undo an `Append` that was refused: nothing was replayed, and its answers were not given."""

    def tick(self, now: Now) -> list[Effect]:
        """Do what is due."""

    def expire(self, now: Now) -> list[Effect]:
        """Forget what has expired, without waiting for the interval; what is left after one Append is due then."""

    def unsafe(self, message: object = None) -> Mapping[TopicPartition, int]:
        """Where markers end, by partition, that have to be durable before this message, or (None) what is due, can be
        done. The host makes them so, and says with `note_durable` how far it has come.
        """

    def note_durable(self, ends: Mapping[TopicPartition, int]) -> None:
        """Up to where partitions are durable, of those that `unsafe` named."""

    def write_down(self, now: Now) -> list[Effect]:
        """Bring the log up to date: the host is about to end."""

    @property
    def is_ahead(self) -> bool:
        """True if something is not in the log that a successor has to know."""

    def take_up(self, predecessor: Self, now: Now) -> None:
        """Go on with the state that a machine of the same log and process had ahead of the log."""

    @property
    def due_ms(self) -> int | None:
        """The time of the next `tick` that has something to do, in ticks; None: after another event."""


MarkerErrors = Mapping[TopicPartition, PylogError | None]
