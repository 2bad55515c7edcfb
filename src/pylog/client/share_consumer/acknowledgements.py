"""The records that a share consumer has given to its program, and what becomes of each.

    given  --acknowledge, or the mode-->  outgoing, by node  --a request-->  under way  --its answer-->  results

What is outgoing goes with the next request to its node. Nothing here waits or sends.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from uuid import UUID

from pylog.errors import InvalidRecordState, PylogError
from pylog.protocol.messages.share import ACCEPT, REJECT, RELEASE, RENEW, AcknowledgementBatch
from pylog.record import TopicPartition

TYPES = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT, "renew": RENEW}
Place = tuple[str, int, int]
"""A record: the topic, the partition, the offset."""
Slot = tuple[UUID, int]
Types = dict[int, int]
"""The types of acknowledgements by offset."""
Results = dict[TopicPartition, tuple[set[int], PylogError | None]]


@dataclass(slots=True)
class _Delivered:
    """A record that the program has."""

    node: int
    topic_id: UUID
    type: int | None = None
    """What becomes of it; None: that is for the mode to say."""


@dataclass(slots=True)
class NodeAcknowledgements:
    """The acknowledgements for one node, by partition."""

    decided: dict[Slot, Types] = field(default_factory=dict)
    renewals: dict[Slot, Types] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to send."""
        return not (self.decided or self.renewals)


class Acknowledgements:
    """The acknowledgements of one share consumer."""

    def __init__(self, *, is_implicit: bool) -> None:
        self._is_implicit = is_implicit
        self._given: dict[Place, _Delivered] = {}
        self._names: dict[UUID, str] = {}
        self.outgoing: dict[int, NodeAcknowledgements] = {}
        self.under_way = 0
        """How many requests with acknowledgements are not answered."""
        self.results: list[tuple[Slot, Types, PylogError | None]] = []
        """What was answered, for the callback and for commits."""

    # --- the program -------------------------------------------------------------------------------------------------

    def give(self, place: Place, node: int, topic_id: UUID, type_: int | None = None) -> None:
        """Note that the program has a record."""
        self._given[place] = _Delivered(node, topic_id, type_)
        self._names[topic_id] = place[0]

    def take_back(self, places: Iterable[Place]) -> None:
        """Note that the program did not get these."""
        for place in places:
            self._given.pop(place, None)

    def acknowledge(self, place: Place, name: str) -> None:
        """Say what becomes of a record. Raises ValueError, InvalidRecordState."""
        if name not in TYPES:
            raise ValueError(f"{name!r} is none of {', '.join(TYPES)}")
        given = self._given.get(place)
        if given is None:
            topic, partition, offset = place
            raise InvalidRecordState(
                f"{topic}-{partition}, offset {offset} is not among the records that the last poll has given, or was "
                "acknowledged and sent"
            )
        if TYPES[name] == RENEW:
            self._out(given.node).renewals.setdefault((given.topic_id, place[1]), {})[place[2]] = RENEW
        else:
            given.type = TYPES[name]

    def settle(self, *, accepts: bool = True) -> None:
        """Take the decisions on all that was given to be sent. In implicit mode it `accepts` all else."""
        for place, given in list(self._given.items()):
            type_ = ACCEPT if given.type is None and self._is_implicit and accepts else given.type
            if type_ is not None:
                self.add(given.node, (given.topic_id, place[1]), {place[2]: type_})
                del self._given[place]

    def check_settled(self) -> None:
        """Raise InvalidRecordState where the program has still to decide."""
        for topic, partition, offset in self._given:
            raise InvalidRecordState(
                f"{topic}-{partition}, offset {offset} was not acknowledged: with acknowledgement='explicit' every "
                "record is, before the next poll"
            )

    def drop(self) -> None:
        """Decide nothing on what is left: it comes free with the session."""
        self._given.clear()

    # --- what is sent ------------------------------------------------------------------------------------------------

    def _out(self, node: int) -> NodeAcknowledgements:
        return self.outgoing.setdefault(node, NodeAcknowledgements())

    def add(self, node: int, slot: Slot, types: Mapping[int, int]) -> None:
        """Have these sent to a node. A lock that ends with them is not renewed."""
        out = self._out(node)
        out.decided.setdefault(slot, {}).update(types)
        left = {one: type_ for one, type_ in out.renewals.pop(slot, {}).items() if one not in types}
        if left:
            out.renewals[slot] = left

    def take(self, node: int, *, renews: bool = False) -> dict[Slot, Types]:
        """Take the acknowledgements for a node, decisions or renewals: they are under way from now on."""
        out = self.outgoing.get(node, NodeAcknowledgements())
        taken = out.renewals if renews else out.decided
        if renews:
            out.renewals = {}
        else:
            out.decided = {}
        if out.is_empty:
            self.outgoing.pop(node, None)
        self.under_way += bool(taken)
        return taken

    def answered(self, sent: Mapping[Slot, Types], errors: Mapping[Slot, PylogError | None]) -> None:
        """Note the answer to what was sent in one request; a partition that it lacks has no error."""
        self.under_way -= bool(sent)
        self.results += [(slot, types, errors.get(slot)) for slot, types in sent.items()]

    @property
    def is_done(self) -> bool:
        """True if nothing is to be sent or under way."""
        return not (self.outgoing or self.under_way)

    def take_results(self) -> Results:
        """Take the answers since the last time: by partition, the offsets without gaps, and the first error."""
        found: Results = {}
        for (topic_id, partition), types, error in self.results:
            offsets = {offset for offset, type_ in types.items() if type_}
            key = TopicPartition(self._names.get(topic_id, str(topic_id)), partition)
            known, first = found.get(key, (set(), None))
            if offsets:
                found[key] = known | offsets, first or error
        self.results = []
        return found


def batches(types: Mapping[int, int]) -> list[AcknowledgementBatch]:
    """The types of some offsets, as a request has them: a batch for each run of offsets of one type."""
    runs = groupby(enumerate(sorted(types)), lambda at: (at[1] - at[0], types[at[1]]))
    return [
        AcknowledgementBatch(first_offset=offsets[0], last_offset=offsets[-1], acknowledge_types=[type_])
        for (_, type_), run in runs
        if (offsets := [offset for _, offset in run])
    ]
