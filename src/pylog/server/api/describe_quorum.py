"""DescribeQuorum: the state of the metadata log, whose only voter is this node. There are no observers.

    0    offsets            1    times: the leader is always caught up
    2    directories, and where the nodes are

Another topic than the metadata log, or another partition, is UnknownTopicOrPartition.
"""

from pylog.errors import UnknownTopicOrPartition
from pylog.protocol.acls import AclOperation
from pylog.protocol.messages import DescribedQuorum, DescribeQuorum
from pylog.protocol.topic_names import METADATA_TOPIC
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.plain import needing
from pylog.server.served_node import ServedNode

TIMES_FROM, NODES_FROM = 1, 2
LISTENER = "PLAINTEXT"


def answer(request: Request, node: ServedNode) -> Outcome:
    """Describe it."""
    quorum: DescribedQuorum = node.ask(DescribeQuorum(), request.session)
    topics = [
        {
            "topicName": topic["topicName"],
            "partitions": [
                _partition((topic["topicName"], part["partitionIndex"]), quorum, request.version, node)
                for part in topic["partitions"]
            ],
        }
        for topic in request.body["topics"]
    ]
    if request.version < NODES_FROM:
        return {"topics": topics}
    listener = {"name": LISTENER, "host": node.address.host, "port": node.address.port}
    is_there = any(part["errorCode"] == 0 for topic in topics for part in topic["partitions"])
    return {"topics": topics, "nodes": [{"nodeId": node.node_id, "listeners": [listener]}] if is_there else []}


def _refused(request: Request, code: int, text: str) -> Body:
    return {"errorCode": code, "topics": []}


def _partition(key: tuple[str, int], quorum: DescribedQuorum, version: int, node: ServedNode) -> Body:
    name, number = key
    if (name, number) != (METADATA_TOPIC, 0):
        return {"partitionIndex": number, "errorCode": UnknownTopicOrPartition.code}
    voter: Body = {"replicaId": node.node_id, "logEndOffset": quorum.next_offset}
    if version >= TIMES_FROM:
        voter["lastFetchTimestamp"] = voter["lastCaughtUpTimestamp"] = node.clock.wall_ms()
    if version >= NODES_FROM:
        voter["replicaDirectoryId"] = quorum.directory_id
    return {
        "partitionIndex": number, "errorCode": 0, "leaderId": node.node_id, "leaderEpoch": quorum.leader_epoch,
        "highWatermark": quorum.high_watermark, "currentVoters": [voter], "observers": [],
    }  # fmt: skip


API = api("DescribeQuorum", needing(AclOperation.DESCRIBE, answer, _refused))
