"""Fetch: records from an offset on, waiting for more where there are too few.

    4-6     rigid; from 5 on the log's start
    7-11    sessions (KIP-227)
    12      flexible; the epoch of the last record that was read (KIP-595)
    13-18   topics are named by id (KIP-516)

The records of the answer stay where they lie: in memory, or as regions of files. A consumer that reads uncommitted
records gets no list of aborted transactions. Racks, and reading from followers, mean nothing here.

An id that is not that of a topic is UnknownTopicId. A session knows the names of its topics: of one that was deleted it
hears UnknownTopicOrPartition, and InconsistentTopicId as soon as another topic has the name (Kafka: FetchSession,
KafkaApis.handleFetchRequest).

A Fetch of a replica is for clients that may do ClusterAction.
"""

from dataclasses import replace

from pylog.errors import (
    InconsistentTopicId,
    ProtocolError,
    PylogError,
    TopicAuthorization,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages import CONSUMER, NO_ID, Fetched, FetchedPart, FetchPart
from pylog.protocol.wire import versions
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.records import fetch, fetch_part, fetched
from pylog.server.api.call import Outcome, Reply, Request, api
from pylog.server.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    Key,
    Pair,
    completed_parts,
    key_of,
)
from pylog.server.quotas import CONSUME
from pylog.server.served_node import ServedNode

SESSIONS_FROM = 7
BY_ID_FROM = versions.BY_ID_FROM["Fetch"]
READ_COMMITTED = 1


def answer(request: Request, node: ServedNode) -> Outcome:
    """Read, for this request alone or for its session."""
    body, version = request.body, request.version
    if version >= BY_ID_FROM:
        for topic in (*body["topics"], *body["forgottenTopicsData"]):
            topic["topic"] = node.known_name(topic["topicId"], request.session)
    named = (fetch_part(topic, part) for topic in body["topics"] for part in topic["partitions"])
    # Each partition once, as it was asked for last (Kafka: FetchRequest.fetchData).
    asked = list({key_of(part): part for part in named}.values())
    is_full = body.get("sessionEpoch", FINAL_EPOCH) in (FINAL_EPOCH, INITIAL_EPOCH)
    with node.sessions.lock:
        found = _session(body, version, asked, node)
        parts = asked if is_full or not isinstance(found, FetchSession) else list(found.parts.values())
    if isinstance(found, ProtocolError):
        return fetched([], version, error=found)
    return _read(request, node, parts, found, is_full=is_full)


def _session(body: Body, version: int, asked: list[FetchPart], node: ServedNode) -> FetchSession | ProtocolError | None:
    """The session of a request; None where it has none."""
    if version < SESSIONS_FROM:
        return None
    session_id, epoch = body["sessionId"], body["sessionEpoch"]
    uses_ids = version >= BY_ID_FROM
    if epoch == FINAL_EPOCH:
        node.sessions.end(session_id)
        return None
    if epoch == INITIAL_EPOCH:
        return node.sessions.begin(session_id, asked, uses_ids=uses_ids)
    found = node.sessions.go_on(session_id, epoch, uses_ids=uses_ids)
    return node.sessions.update(found, asked, _forgotten(body)) if isinstance(found, FetchSession) else found


def _forgotten(body: Body) -> list[Key]:
    return [
        (topic["topic"], topic.get("topicId", NO_ID), number)
        for topic in body["forgottenTopicsData"]
        for number in topic["partitions"]
    ]


def _read(
    request: Request, node: ServedNode, parts: list[FetchPart], session: FetchSession | None, *, is_full: bool
) -> Outcome:  # fmt: skip
    version, lists_aborted = request.version, request.body["isolationLevel"] == READ_COMMITTED
    message = fetch(request.body, parts)
    message.as_extents = True
    # (Kafka: KafkaApis.handleFetchRequest)
    message.max_bytes = min(message.max_bytes, node.config.fetch_max_bytes)
    has_quotas = node.quotas.is_active and message.replica_id <= CONSUMER
    if has_quotas:
        message.max_bytes = node.quotas.bytes_at_once(request.session, message.max_bytes)
    session_id = NO_SESSION if session is None else session.id

    def response(given: Fetched) -> Body:
        if has_quotas:
            size = sum(part.size for part in given.parts)
            throttle_ms = node.quotas.throttle_ms(CONSUME, request.session, size, takes_back=True)
            if throttle_ms:
                return _throttled(version, session, node, throttle_ms, is_full=is_full)
        pairs = completed_parts(parts, given.parts)
        if any(part.error is not None for _, part in pairs):
            pairs = [_as_named(pair, session, request, node) for pair in pairs]
        if session is not None:
            with node.sessions.lock:
                pairs = session.news(pairs, everything=is_full)
        return fetched(pairs, version, session_id=session_id, lists_aborted=lists_aborted)

    def refused(error: PylogError) -> Body:
        pairs = [(part, FetchedPart(part.topic, part.partition, error)) for part in parts]
        return fetched(pairs, version, session_id=session_id)

    if message.replica_id > CONSUMER and not node.trusts(request.session):
        return refused(TopicAuthorization(f"{request.session.principal} is no replica: see super.users"))
    try:
        return Reply(node.admit(message, request.session), response, refused)
    except PylogError as error:
        return refused(error)


def _throttled(
    version: int, session: FetchSession | None, node: ServedNode, throttle_ms: int, *, is_full: bool
) -> Body:  # fmt: skip
    """An answer without records: the client asks for the same later. (Kafka: FetchContext.getThrottledResponse)"""
    if session is not None and is_full:
        with node.sessions.lock:
            node.sessions.end(session.id)
    session_id = NO_SESSION if session is None or is_full else session.id
    return {**fetched([], version, session_id=session_id), "throttleTimeMs": throttle_ms}


def _as_named(pair: Pair, session: FetchSession | None, request: Request, node: ServedNode) -> Pair:
    """The answer to a part whose topic was named by an id: its error says what became of the topic of that id."""
    asked, part = pair
    if not (asked.topic and asked.topic_id != NO_ID and isinstance(part.error, _ABSENT)):
        return pair
    present = node.id_of(asked.topic, request.session)
    if present == asked.topic_id:
        return pair
    error: PylogError = UnknownTopicId(f"there is no topic with id {asked.topic_id}")
    if session is not None and key_of(asked) in session.known:
        error = (
            UnknownTopicOrPartition(f"topic {asked.topic!r} was deleted")
            if present == NO_ID
            else InconsistentTopicId(f"topic {asked.topic!r} was made again: its id is {present}, not {asked.topic_id}")
        )
    return asked, replace(part, error=error)


_ABSENT = (UnknownTopicId, UnknownTopicOrPartition)

API = api("Fetch", answer)
