"""Where a group goes when its offsets are reset: to an end, to an offset, to a time, or by so many records on."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pylog.client.cluster import Cluster, raise_first
from pylog.errors import GroupNotEmpty, PylogError, UnknownTopicOrPartition
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import EARLIEST, LATEST
from pylog.record import TopicPartition


class OffsetMove(NamedTuple):
    """The offset of a group in a partition before a move (None: it had none), and the one after it."""

    before: int | None
    after: int


class Reset:
    """A way to send a group elsewhere. Raises TypeError, ValueError where several are given, or none."""

    def __init__(self, to: str | None, **ways: int | None) -> None:
        given = {name: value for name, value in ways.items() if value is not None}
        if len(given) + (to is not None) != 1 or to not in (None, "earliest", "latest"):
            names = [f"{name}=" for name in ways]
            raise ValueError(f'give one of to="earliest", to="latest", {", ".join(names[:-1])} and {names[-1]}')
        for name, value in given.items():
            if type(value) is not int:
                raise TypeError(f"{name} is {type(value).__name__}, not int")
            if name == "time_ms" and value < 0:
                raise ValueError(f"{value} is no time in ms")
        self._to = to
        self._given = given

    def moves(
        self, cluster: Cluster, group_id: str, before: Mapping[TopicPartition, int | None],
        keys: Iterable[TopicPartition],
    ) -> dict[TopicPartition, OffsetMove]:  # fmt: skip
        """Where the group goes in these partitions; an offset outside of the log becomes the nearest end."""
        wanted = list(keys)
        earliest, latest = (listed_offsets(cluster, wanted, end) for end in (EARLIEST, LATEST))
        goals = self._goals(cluster, group_id, {key: before.get(key) for key in wanted}, earliest, latest)
        return {
            key: OffsetMove(before.get(key), min(max(goals[key], earliest[key]), latest[key])) for key in wanted
        }  # fmt: skip

    def _goals(
        self, cluster: Cluster, group_id: str, before: dict[TopicPartition, int | None],
        earliest: dict[TopicPartition, int], latest: dict[TopicPartition, int],
    ) -> dict[TopicPartition, int]:  # fmt: skip
        if self._to is not None:
            return {"earliest": earliest, "latest": latest}[self._to]
        ((way, value),) = self._given.items()
        if way == "offset":
            return dict.fromkeys(before, value)
        if way == "time_ms":
            found = listed_offsets(cluster, list(before), value)
            return {key: at if at >= 0 else latest[key] for key, at in found.items()}
        goals = {}
        for key, at in before.items():
            if at is None:
                raise ValueError(f"{group_id!r} has committed nothing in {key.topic}-{key.partition} to shift from")
            goals[key] = at + value
        return goals


def listed_offsets(cluster: Cluster, keys: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    """An offset of each partition. A topic may have been deleted after a group had read it: it ends at 0."""
    parts = cluster.list_offsets(dict.fromkeys(keys, timestamp), Isolation.READ_UNCOMMITTED)
    gone = {key for key, part in parts.items() if isinstance(part.error, UnknownTopicOrPartition)}
    raise_first([part.error for key, part in parts.items() if key not in gone])
    return {key: 0 if key in gone else part.offset for key, part in parts.items()}


def in_use(group_id: str) -> PylogError:
    """The error of a group that has members."""
    return GroupNotEmpty(f"group {group_id!r} has members: stop them first")
