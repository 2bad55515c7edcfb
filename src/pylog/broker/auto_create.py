"""Topics that are made because a client names them, with the node's `num.partitions` (Kafka: AutoTopicCreationManager).

Both have to want it: the client (`allow.auto.create.topics`) and the node (`auto.create.topics.enable`).
"""

from pylog.broker.replica_manager import ReplicaManager
from pylog.config import NodeConfig
from pylog.errors import PylogError, TopicAlreadyExists, UnknownTopicOrPartition
from pylog.protocol.messages import INTERNAL_TOPICS, NODE_DEFAULT, NewTopic
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse


def described(node: ReplicaManager, config: NodeConfig, asked: MetadataRequest) -> MetadataResponse:
    """Describe topics; those that are missing are made first where that is wanted. One that cannot be says why."""
    found = node.roles.describe(asked)
    missing = [topic.name for topic in found.topics if isinstance(topic.error, UnknownTopicOrPartition)]
    if not (missing and asked.allow_auto_topic_creation and config.auto_create_topics_enable):
        return found
    refused: dict[str, PylogError] = {}
    for name in missing:
        if name is None or name in INTERNAL_TOPICS:
            continue
        try:
            node.changes.create_topic(NewTopic(name, NODE_DEFAULT))
        except TopicAlreadyExists:
            # Another client was faster.
            pass
        except PylogError as error:
            refused[name] = error
    found = node.roles.describe(asked)
    for topic in found.topics:
        topic.error = refused.get(topic.name or "", topic.error)
    return found
