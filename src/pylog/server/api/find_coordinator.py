"""FindCoordinator: the leader of the partition of a group, or of a transactional id, where this node has one.

    0      groups alone
    1-3    a group or a transactional id; the message beside no error is "NONE"
    4-6    several keys at once; the message beside no error is empty

Before a coordinator has written anything this node is it. A leader elsewhere whose address is not known is
CoordinatorNotAvailable. Share groups (key type 2) are not there.
"""

from collections.abc import Sequence

from pylog.errors import CoordinatorNotAvailable, InvalidRequest, ProtocolError
from pylog.protocol.messages import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.protocol.partitioner import partition_for
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.versions import SEVERAL_FROM
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

TOPICS = {0: GROUPS_TOPIC, 1: TRANSACTIONS_TOPIC}
NOBODY = {"nodeId": -1, "host": "", "port": -1}


def answer(request: Request, node: ServedNode) -> Outcome:
    """Name the coordinator of each key."""
    body, kind = request.body, request.body.get("keyType", 0)
    is_many = request.version >= SEVERAL_FROM
    keys = body["coordinatorKeys"] if is_many else [body["key"]]
    if kind in TOPICS:
        places = _places(TOPICS[kind], keys, request, node)
    else:
        text = f"keys of type {kind} have no coordinator here: groups (0) and transactional ids (1) have"
        places = [InvalidRequest(text)] * len(keys)
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
