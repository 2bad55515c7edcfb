"""FindCoordinator: the leader of the partition of a group, of a transactional id, or of a share partition, where this
node has one.

    0      groups alone
    1-3    a group or a transactional id; the message beside no error is "NONE"
    4-5    several keys at once; the message beside no error is empty
    6      share partitions, too, by "group:topic id:partition": brokers ask for them

Before a coordinator has written anything this node is it. A leader elsewhere whose address is not known is
CoordinatorNotAvailable.
"""

from collections.abc import Sequence

from pylog.errors import (
    CoordinatorNotAvailable,
    GroupAuthorization,
    InvalidRequest,
    ProtocolError,
    TransactionalIdAuthorization,
)
from pylog.protocol.acls import AclOperation, AclResourceType
from pylog.protocol.messages import GROUPS_TOPIC, SHARE_STATES_TOPIC, TRANSACTIONS_TOPIC
from pylog.protocol.messages.share_state import is_share_partition_name
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.protocol.partitioner import partition_for
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.versions import SEVERAL_FROM
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.plain import not_trusted
from pylog.server.served_node import ServedNode

SHARE, SHARE_FROM = 2, 6
TOPICS = {0: GROUPS_TOPIC, 1: TRANSACTIONS_TOPIC, SHARE: SHARE_STATES_TOPIC}
_NO_NAME = InvalidRequest("a share partition is named as group:topic id:partition")
_OF_CLIENTS = {0: AclResourceType.GROUP, 1: AclResourceType.TRANSACTIONAL_ID}
_REFUSALS: dict[int, ProtocolError] = {
    0: GroupAuthorization("Group authorization failed."),
    1: TransactionalIdAuthorization("Transactional Id authorization failed."),
}
NOBODY = {"nodeId": -1, "host": "", "port": -1}


def answer(request: Request, node: ServedNode) -> Outcome:
    """Name the coordinator of each key."""
    body, kind = request.body, request.body.get("keyType", 0)
    is_many = request.version >= SEVERAL_FROM
    keys = body["coordinatorKeys"] if is_many else [body["key"]]
    known = TOPICS if request.version >= SHARE_FROM else {**TOPICS, SHARE: None}
    topic = known.get(kind)
    if topic is None:
        text = f"keys of type {kind} have no coordinator here: groups (0) and transactional ids (1) have"
        places: list[Body | ProtocolError] = [InvalidRequest(text)] * len(keys)
    elif kind == SHARE and not node.trusts(request.session):
        places = [not_trusted(request)] * len(keys)
    else:
        places = _places(topic, keys, request, node)
        if kind in _OF_CLIENTS:
            places = [
                place
                if node.allows(request.session, AclOperation.DESCRIBE, _OF_CLIENTS[kind], key)
                else _REFUSALS[kind]
                for key, place in zip(keys, places, strict=True)
            ]
    if kind == SHARE:
        places = [place if is_share_partition_name(key) else _NO_NAME for key, place in zip(keys, places, strict=True)]
    if is_many:
        return {"coordinators": [{"key": key, **_told(place, "")} for key, place in zip(keys, places, strict=True)]}
    return _told(places[0], "NONE")


def _places(topic: str, keys: Sequence[str], request: Request, node: ServedNode) -> list[Body | ProtocolError]:
    """The coordinator of each key, or the error in its place, by the leaders of a topic."""
    found: MetadataResponse = node.ask(MetadataRequest.of([topic]), request.session)
    leaders = {part.partition_index: part.leader_id for part in found.topics[0].partitions}
    nodes = node.nodes(found).items()
    known: dict[int, Body] = {one: {"nodeId": one, "host": host, "port": port} for one, (host, port) in nodes}
    places: list[Body | ProtocolError] = []
    for key in keys:
        leader = leaders[partition_for(key, len(leaders))] if leaders else node.node_id
        unknown = CoordinatorNotAvailable(f"node {leader} coordinates it, whose address is not known here")
        places.append(known.get(leader, unknown))
    return places


def _told(place: Body | ProtocolError, no_error: str) -> Body:
    if isinstance(place, ProtocolError):
        return {**NOBODY, "errorCode": place.code, "errorMessage": str(place)}
    return {**place, "errorCode": 0, "errorMessage": no_error}


API = api("FindCoordinator", answer)
