"""Random operations on share groups, drawn from a seed: `share_observer.ShareObserver` carries them out.

`ShareChoices` knows neither offsets nor who has what: an acknowledgement names a part of something that was acquired
lately, by the one who acquired it or by another member, and is often wrong.

Kafka keeps what was acquired at once as one batch: which records it gives besides those that were asked for, and how
many of those that were delivered often, goes by such batches, and pylog's goes by neighbours (docs/compatibility.md).
Groups are such that both come to the same: `Kind` says how.
"""

from dataclasses import dataclass, field
from typing import Any

from conformance.wire.workload import Choices, Operation

BATCHES, SINGLES, WHOLE = "batches", "singles", "whole"
TOPICS = {BATCHES: 2, SINGLES: 1, WHOLE: 1}
"""The topics, each with the number of its partitions. In SINGLES each batch has one record. Of WHOLE nothing is
deleted: a partition of Kafka's gives nothing any more where a state that it loads has a gap in what is deleted.
"""
MEMBERS = ["ann", "ben", "cat"]
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
FINAL = [GAP, ACCEPT, REJECT]
WRONG = ["other's", "beyond", "backwards", "type", "count", "twice", "renewed"]
ALMOST_ALL = 0.99999
PART = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Kind:
    """What differs between groups."""

    parts: list[PART]
    limit: int
    """How often a record is delivered at most. With 2, no record is delivered with fewer others than before."""
    is_strict: bool = True
    """Whether it never gets more records than it asks for. Otherwise each batch of Kafka's is one of the log."""
    is_kept: bool = False
    """Whether no state is loaded while the workload runs: Kafka's batches would be those that were written down."""
    wants_all: bool = False
    """Whether it always asks for all. Kafka counts records of aborted transactions as if it had given them."""
    accepts_at: int = 1 << 15
    """A record that was delivered so often is accepted at once, before it is delivered with fewer others."""
    configs: dict[str, str] = field(default_factory=dict)


GROUPS = {
    "strict": Kind([(BATCHES, 0), (BATCHES, 1)], 2, configs={"share.partition.max.record.locks": "100"}),
    "soft": Kind([(BATCHES, 0), (BATCHES, 1)], 2, is_strict=False, is_kept=True),
    "single": Kind([(SINGLES, 0)], 3, is_strict=False, is_kept=True),
    "committed": Kind(
        [(WHOLE, 0)], 10, wants_all=True, accepts_at=5,
        configs={"share.isolation.level": "read_committed"},
    ),
}  # fmt: skip


class ShareChoices(Choices):
    """Draws operations; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        kinds = {
            self._produce: 16, self._own: 1, self._add: 3, self._transact: 5, self._end: 4, self._delete_records: 1,
            self._open: 6, self._share_fetch: 26, self._acknowledge: 26, self._stale: 3, self._close: 4,
            self._disconnect: 1, self._lapse: 1, self._forget: 2, self._members: 3, self._offsets: 2, self._see: 8,
        }  # fmt: skip
        self._kinds, self._weights = list(kinds), list(kinds.values())

    def _where(self) -> dict[str, Any]:
        topic = self._random.choice([BATCHES, BATCHES, SINGLES, WHOLE])
        return {"topic": topic, "partition": self._random.randrange(TOPICS[topic])}

    def _produce(self) -> Operation:
        return _single(super()._produce())

    def _transact(self) -> Operation:
        return _single(super()._transact())

    def _delete_records(self) -> Operation:
        operation = super()._delete_records()
        return operation if operation.words["topic"] != WHOLE else self._see()

    def _group_name(self) -> str:
        return self._random.choice(list(GROUPS))

    def _who(self, group: str | None = None) -> dict[str, Any]:
        return {"group": group or self._group_name(), "member": self._random.choice(MEMBERS)}

    def _open(self) -> Operation:
        who = self._who()
        parts = GROUPS[who["group"]].parts
        some = self._random.choice([parts, parts, parts[:1], parts[-1:]])
        return Operation("open", who | {"parts": some} | self._wish())

    def _wish(self) -> dict[str, Any]:
        return {
            "records": self._random.choice([1, 3, 10, 500, 500]),
            "min_bytes": self._random.choice([1] * 20 + [0, 5000]),
            "max_bytes": self._random.choice([1 << 20] * 4 + [1, 400]), "size": self._random.choice([1, 4, 500]),
        }  # fmt: skip

    def _share_fetch(self) -> Operation:
        words = self._who() | self._wish()
        said = [self._word(FINAL)] if self._random.random() < 0.2 else []
        return Operation("share_fetch", words | {"said": said})

    def _word(self, types: list[int]) -> dict[str, Any]:
        """What is said of a part of something that was acquired."""
        count = self._random.choice([1, 1, 2, 5])
        return {
            "of": self._random.random() ** 2, "first": self._random.choice([0, 0, self._random.random()]),
            "share": self._random.choice([1, 1, self._random.random()]), "types": self._random.choices(types, k=count),
        }  # fmt: skip

    def _acknowledge(self) -> Operation:
        wrong = self._random.choice(WRONG) if self._random.random() < 0.12 else ""
        types = [RENEW] if self._random.random() < 0.1 else [ACCEPT, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, GAP]
        return Operation("acknowledge", self._who() | {"said": self._word(types), "wrong": wrong})

    def _stale(self) -> Operation:
        name = self._random.choice(["fetch", "acknowledge"])
        return Operation("stale", self._who() | {"name": name, "ahead": self._random.choice([-1, 1, 5])})

    def _close(self) -> Operation:
        said = [self._word(FINAL)] if self._random.random() < 0.5 else []
        by = self._random.choice(["ShareFetch", "ShareAcknowledge"])
        return Operation("close", self._who() | {"said": said, "by": by})

    def _reloaded(self) -> str:
        return self._random.choice([name for name, kind in GROUPS.items() if not kind.is_kept])

    def _disconnect(self) -> Operation:
        return Operation("disconnect", self._who(self._reloaded()))

    def _lapse(self) -> Operation:
        return Operation("lapse", self._who() | self._wish() | {"renewed": self._random.choice([0, 0.5])})

    def _forget(self) -> Operation:
        who = self._who()
        part = self._random.choice(GROUPS[who["group"]].parts)
        return Operation("forget", who | {"part": part, "records": self._random.choice([0, 3, 500])})

    def _members(self) -> Operation:
        return Operation(self._random.choice(["join", "leave", "leave"]), self._who())

    def _offsets(self) -> Operation:
        group = self._reloaded()
        name = self._random.choice(["alter_offsets", "alter_offsets", "delete_offsets"])
        topic, partition = self._random.choice(GROUPS[group].parts)
        # Kafka fails at a start within a batch that was aborted, so a group of committed records begins at the end.
        at = self._random.random() if not GROUPS[group].wants_all else ALMOST_ALL
        return Operation(name, {"group": group, "topic": topic, "partition": partition, "at": at})

    def _see(self) -> Operation:
        name = self._random.choice(["offsets", "offsets", "stored", "stored", "groups_of_shares"])
        return Operation(name, {"group": self._group_name()})


def _single(operation: Operation) -> Operation:
    """The operation with one record where the topic has no larger batches."""
    words = dict(operation.words)
    if words["topic"] == SINGLES:
        words["values"] = words["values"][:1]
    return Operation(operation.name, words)
