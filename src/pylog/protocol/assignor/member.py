"""The interface of an assignor, and its view of a member."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from pylog.protocol.partitioner import utf_16_be
from pylog.record import TopicPartition

NO_GENERATION = -1

Assignment = dict[str, list[TopicPartition]]
"""The partitions of each member, by member id; an empty list for a member without any."""


class SubscribedMember(NamedTuple):
    """A member as its subscription shows it."""

    member_id: str
    group_instance_id: str | None
    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION
    """The generation in which it got its partitions."""
    user_data: bytes | None = None
    """The message of its assignor of the same name (`Assignor.user_data`)."""
    rack_id: str | None = None


class Assignor(Protocol):
    """An assignor: it gives each partition to one member that subscribes to its topic."""

    @property
    def name(self) -> str:
        """The name that the members of a group agree on."""

    @property
    def protocols(self) -> tuple[str, ...]:
        """Best first. "eager": members give everything back before they join; "cooperative": they keep it."""

    def assign(self, topics: Mapping[str, int], members: Sequence[SubscribedMember]) -> Assignment:
        """The partitions of every member; `topics` has the number of partitions of each topic."""

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """The message of a member to its leader's assignor: its last partitions, and their generation."""


def java_order(text: str) -> bytes:
    """A key that sorts strings as Java does, by UTF-16 code units: all beyond U+FFFF stands before U+E000."""
    return utf_16_be(text, "surrogatepass")[0]


def java_map_order(keys: Sequence[str]) -> list[str]:
    """Distinct strings as a Java HashMap orders them: by buckets, of which there are 4 for 3 keys or more.

    Kafka's assignors go through such maps, so their answers depend on this order. Within a bucket it is that of `keys`.
    """
    buckets = 16
    while len(keys) * 4 > buckets * 3:
        buckets *= 2
    return sorted(keys, key=lambda key: _spread(key) & (buckets - 1))


def _spread(text: str) -> int:
    """A string's hash, its upper half folded into the lower one (Java: String.hashCode, HashMap.hash)."""
    found = 0
    units = java_order(text)
    for high, low in zip(units[::2], units[1::2], strict=True):
        found = (31 * found + (high << 8 | low)) & 0xFFFFFFFF
    return found ^ found >> 16


def subscribed(topics: Mapping[str, int], members: Sequence[SubscribedMember]) -> dict[str, int]:
    """The topics that a member subscribes to and that have partitions, in order."""
    wanted = {topic for member in members for topic in member.topics}
    return {topic: topics[topic] for topic in sorted(wanted) if topics.get(topic, 0) > 0}


def partitions_of(topics: Mapping[str, int]) -> list[TopicPartition]:
    """All partitions, topic by topic."""
    return [TopicPartition(topic, partition) for topic, count in topics.items() for partition in range(count)]
