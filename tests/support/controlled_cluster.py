"""A controller whose records are applied to an image, and nothing else; and rows of decisions about one partition."""

from collections.abc import Mapping
from uuid import UUID

from hypothesis import strategies as st

from pylog.config import NodeConfig
from pylog.config.dynamic import Altered, DynamicBrokerConfig
from pylog.controller.controller import Controller
from pylog.controller.partitions import PartitionControl
from pylog.controller.roles import Follow, Lead
from pylog.protocol.messages import ConfigResource, NewTopic, ResourceType
from pylog.protocol.metadata_image import MetadataImage, PartitionImage, decode_record
from pylog.record import TopicPartition

HERE, BESIDE = UUID(int=900), UUID(int=901)
"""The log directories of the node."""
TOPIC_ID = UUID(int=77)
KEY = TopicPartition("t", 0)


class Cluster:
    """One node that is its own controller. `commit` applies records, and counts how often there are some."""

    def __init__(self, node_id: int = 1) -> None:
        self.image = MetadataImage()
        self.commits = 0
        cluster, own = (ConfigResource(ResourceType.BROKER, name) for name in ("", str(node_id)))

        def altered() -> Altered:
            return Altered(self.image.configs_of(cluster), self.image.configs_of(own))

        def of_group(name: str) -> Mapping[str, str]:
            return self.image.configs_of(ConfigResource(ResourceType.GROUP, name))

        self.controller = Controller(node_id, DynamicBrokerConfig(NodeConfig(), altered, of_group), lambda: self.image)

    def commit(self, records: list[bytes]) -> None:
        after = self.image.successor()
        for record in records:
            after.apply(decode_record(record))
        self.image = after
        self.commits += bool(records)

    def create(self, name: str = "t", partitions: int = 1, topic_id: UUID = TOPIC_ID) -> None:
        self.commit(self.controller.topics.create(NewTopic(name, partitions), topic_id, [HERE]))

    def state(self, key: TopicPartition = KEY) -> PartitionImage:
        return self.image.topic(key.topic).partitions[key.partition]


def lead(epoch: int, *followers: int, joining: tuple[int, ...] = ()) -> Lead:
    return Lead(topic="t", partition=0, leader_epoch=epoch, replicas=(1, *followers), joining=joining)


def follow(epoch: int, leader: int = 9, *, counts: bool = False) -> Follow:
    return Follow(
        topic="t", topic_id=TOPIC_ID, partition=0, partitions=1, leader=leader, leader_epoch=epoch, counts=counts
    )


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "end", "lead", "follow", "grow", "shrink", "expand"]),
        st.integers(0, 3), st.frozensets(st.integers(2, 4)),
    ),
    max_size=20,
)  # fmt: skip


def decided(
    partitions: PartitionControl,
    step: str,
    before: PartitionImage,
    latest: int,
    number: int,
    nodes: frozenset[int],
) -> list[bytes]:
    """The records of one step; only a leader takes an epoch, and changes its ISR."""
    epoch, joining = partitions.unused_epoch(KEY, latest) + number, tuple(sorted(nodes))[:number]
    if step in ("take", "shrink", "expand") and before.leader != 1:
        return []
    return {
        "take": lambda: partitions.take_epoch(KEY, latest=latest, is_new=False, at_least=-1),
        "end": lambda: partitions.end_epochs({KEY: latest}),
        "lead": lambda: partitions.lead(lead(epoch, *sorted(nodes), joining=joining), latest),
        "follow": lambda: partitions.follow(follow(epoch, leader=9, counts=bool(number)), latest),
        "grow": lambda: partitions.set_followers("t", nodes, frozenset(joining)),
        "shrink": lambda: partitions.shrink_isr({KEY: nodes}),
        "expand": lambda: partitions.expand_isr(before.replicas[-1], [KEY]),
    }[step]()
