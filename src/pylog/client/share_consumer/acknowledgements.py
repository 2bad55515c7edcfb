"""The records that a share consumer has given to its program, and what becomes of each.

    given  --acknowledge, or the mode-->  outgoing, by node  --a request-->  under way  --its answer-->  results

What is outgoing goes with the next request to its node. Nothing here waits or sends.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pylog.errors import InvalidRecordState, PylogError
from pylog.protocol.messages.share import ACCEPT, REJECT, RELEASE, RENEW, AcknowledgementBatch, SharedPartition
from pylog.record import TopicPartition

TYPES = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT, "renew": RENEW}
Place = tuple[str, int, int]
"""A record: the topic, the partition, the offset."""
Types = dict[int, int]
"""The types of acknowledgements by offset."""
Results = dict[TopicPartition, tuple[set[int], PylogError | None]]


@dataclass(slots=True)
class _Delivered:
    """The records of one partition and leader that the program has."""

    node: int
    part: SharedPartition
    types: dict[int, int | None]
    """What becomes of each, by offset; None: that is for the mode to say."""


@dataclass(slots=True)
class NodeAcknowledgements:
    """The acknowledgements for one node, by partition."""

    decided: dict[SharedPartition, Types] = field(default_factory=dict)
    renewals: dict[SharedPartition, Types] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to send."""
        return not (self.decided or self.renewals)


class Acknowledgements:
    """The acknowledgements of one share consumer."""

    def __init__(self, *, is_implicit: bool) -> None:
        self._is_implicit = is_implicit
        self._given: dict[tuple[str, int], list[_Delivered]] = {}
        """By topic and partition; of two leaders where it has moved."""
        self._names: dict[int, str] = {}
        self.outgoing: dict[int, NodeAcknowledgements] = {}
        self.under_way = 0
        """How many requests with acknowledgements are not answered."""
        self.sent = self.refused = 0
        """How many records were acknowledged in requests, and how many of these were refused."""
        self.results: list[tuple[SharedPartition, Types, PylogError | None]] = []
        """What was answered, for the callback and for commits."""

    # --- the program -------------------------------------------------------------------------------------------------

    def give(
        self, key: tuple[str, int], node: int, part: SharedPartition, offsets: Iterable[int], type_: int | None = None
    ) -> None:
        """Note that the program has these records of a partition."""
        there = self._given.setdefault(key, [])
        for given in there:
            if given.node == node and given.part == part:
                given.types.update(dict.fromkeys(offsets, type_))
                return
        there.append(_Delivered(node, part, dict.fromkeys(offsets, type_)))
        self._names[part.topic] = key[0]

    def take_back(self, key: tuple[str, int], offsets: Iterable[int]) -> None:
        """Note that the program did not get these."""
        for given in self._given.get(key, ()):
            for offset in offsets:
                given.types.pop(offset, None)

    def acknowledge(self, place: Place, name: str) -> None:
        """Say what becomes of a record. Raises ValueError, InvalidRecordState."""
        if name not in TYPES:
            raise ValueError(f"{name!r} is none of {', '.join(TYPES)}")
        topic, partition, offset = place
        given = next((one for one in self._given.get((topic, partition), ()) if offset in one.types), None)
        if given is None:
            raise InvalidRecordState(
                f"{topic}-{partition}, offset {offset} is not among the records that the last poll has given, or was "
                "acknowledged and sent"
            )
        if TYPES[name] == RENEW:
            self._out(given.node).renewals.setdefault(given.part, {})[offset] = RENEW
        else:
            given.types[offset] = TYPES[name]

    def settle(self, *, accepts: bool = True) -> None:
        """Take the decisions on all that was given to be sent. In implicit mode it `accepts` all else."""
        default = ACCEPT if self._is_implicit and accepts else None
        before, self._given = self._given, {}
        for key, there in before.items():
            for given in there:
                said = {offset: type_ or default for offset, type_ in given.types.items()}
                decided = {offset: type_ for offset, type_ in said.items() if type_ is not None}
                self.add(given.node, given.part, decided)
                if len(decided) < len(said):
                    self.give(key, given.node, given.part, said.keys() - decided.keys())

    def check_settled(self) -> None:
        """Raise InvalidRecordState where the program has still to decide."""
        for (topic, partition), there in self._given.items():
            for offset in (offset for given in there for offset in given.types):
                raise InvalidRecordState(
                    f"{topic}-{partition}, offset {offset} was not acknowledged: with acknowledgement='explicit' every "
                    "record is, before the next poll"
                )

    def drop(self) -> None:
        """Decide nothing on what is left: it comes free with the session."""
        self._given.clear()

    # --- what is sent ------------------------------------------------------------------------------------------------

    def _out(self, node: int) -> NodeAcknowledgements:
        out = self.outgoing.get(node)
        if out is None:
            out = self.outgoing[node] = NodeAcknowledgements()
        return out

    def add(self, node: int, part: SharedPartition, types: Types) -> None:
        """Have these sent to a node. A lock that ends with them is not renewed."""
        if not types:
            return
        out = self._out(node)
        if part in out.decided:
            out.decided[part].update(types)
        else:
            out.decided[part] = types
        if part in out.renewals:
            left = {one: type_ for one, type_ in out.renewals.pop(part).items() if one not in types}
            if left:
                out.renewals[part] = left

    def take(self, node: int, *, renews: bool = False) -> dict[SharedPartition, Types]:
        """Take the acknowledgements for a node, decisions or renewals: they are under way from now on."""
        out = self.outgoing.get(node)
        if out is None:
            return {}
        taken = out.renewals if renews else out.decided
        if renews:
            out.renewals = {}
        else:
            out.decided = {}
        if out.is_empty:
            self.outgoing.pop(node, None)
        self.under_way += bool(taken)
        self.sent += sum(map(len, taken.values()))
        return taken

    def answered(
        self, sent: Mapping[SharedPartition, Types], errors: Mapping[SharedPartition, PylogError | None]
    ) -> None:
        """Note the answer to what was sent in one request; a partition that it lacks has no error."""
        self.under_way -= bool(sent)
        for part, types in sent.items():
            error = errors.get(part)
            if error is not None:
                self.refused += len(types)
            self.results.append((part, types, error))

    @property
    def is_done(self) -> bool:
        """True if nothing is to be sent or under way."""
        return not (self.outgoing or self.under_way)

    def take_results(self) -> Results:
        """Take the answers since the last time: by partition, the offsets without gaps, and the first error."""
        found: Results = {}
        for part, types, error in self.results:
            offsets = {offset for offset, type_ in types.items() if type_}
            name = self._names.get(part.topic)
            key = TopicPartition(str(part.topic_id) if name is None else name, part.partition)
            known, first = found.get(key, (set(), None))
            if offsets:
                found[key] = known | offsets, first or error
        self.results = []
        return found


def batches(types: Mapping[int, int]) -> list[AcknowledgementBatch]:
    """The types of some offsets, as a request has them: a batch for each run of offsets of one type."""
    found: list[AcknowledgementBatch] = []
    first, last, same = 0, -2, -1
    for offset in sorted(types):
        type_ = types[offset]
        if offset != last + 1 or type_ != same:
            if last >= 0:
                found.append(AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[same]))
            first, same = offset, type_
        last = offset
    if last >= 0:
        found.append(AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[same]))
    return found
