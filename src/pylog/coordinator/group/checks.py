"""The limits of members' messages, checked before anything else, and the answers that refuse a message.

All of a message has to fit into a record.
"""

from collections.abc import Iterable
from typing import Any

from pylog.config.options import INT_MAX
from pylog.coordinator.patterns import matcher
from pylog.errors import (
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    ProtocolError,
    UnknownMemberId,
    UnsupportedAssignor,
)
from pylog.protocol.assignor import SERVER_ASSIGNORS
from pylog.protocol.messages import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, Session
from pylog.protocol.messages.groups import ConsumerGroupHeartbeatRequest, JoinGroupRequest, LeaveGroupRequest
from pylog.protocol.messages.share import ShareGroupHeartbeatRequest

NOT_SAID = -1
STRING_BYTES_MAX = 0x7FFF


def check_join(message: JoinGroupRequest, session: Session, shortest_ms: int, longest_ms: int) -> None:
    """Raises InvalidSessionTimeout, and InvalidRequest for a message that could not be logged."""
    if not shortest_ms <= message.session_timeout_ms <= longest_ms:
        raise InvalidSessionTimeout(
            f"session_timeout_ms {message.session_timeout_ms} is not within {shortest_ms} and {longest_ms}"
        )
    if not 0 <= message.rebalance_timeout_ms <= INT_MAX:
        raise InvalidRequest(f"rebalance_timeout_ms {message.rebalance_timeout_ms} is not within 0 and {INT_MAX}")
    texts = [message.group_id, message.member_id, message.group_instance_id or "", message.protocol_type]
    texts += [session.client_id, session.host, *(name for name, _ in message.named_protocols)]
    check_texts(texts)


def check_texts(texts: Iterable[str]) -> None:
    """Raises InvalidRequest for a text that fits into no record: it is too long, or has half a character."""
    for text in texts:
        if len(text.encode("utf-8", "surrogatepass")) > STRING_BYTES_MAX - 64 or not _is_unicode(text):
            raise InvalidRequest(
                f"{text[:40]!r}... does not fit into a record: it is too long, or has half a character"
            )


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def check_heartbeat(message: ConsumerGroupHeartbeatRequest, session: Session) -> None:
    """Raises InvalidRequest, UnsupportedAssignor, InvalidRegularExpression."""
    for name, text in (("member", message.member_id), ("group", message.group_id)):
        if not text and not (name == "member" and message.member_epoch == JOIN_EPOCH):
            raise InvalidRequest(f"a heartbeat needs a {name} id that is not empty")
    if message.instance_id == "" or message.rack_id == "":
        raise InvalidRequest("an instance id or a rack id must not be empty: leave it out")
    if message.member_epoch < LEAVE_STATIC_EPOCH:
        raise InvalidRequest(f"there is no member epoch {message.member_epoch}")
    if message.member_epoch == LEAVE_STATIC_EPOCH and message.instance_id is None:
        raise InvalidRequest("only a member with an instance id leaves to come back: leave with epoch -1")
    if message.member_epoch == JOIN_EPOCH:
        _check_join(message)
    if not NOT_SAID <= message.rebalance_timeout_ms <= INT_MAX:
        raise InvalidRequest(f"rebalance_timeout_ms {message.rebalance_timeout_ms} is not within 0 and {INT_MAX}")
    if message.server_assignor is not None and message.server_assignor not in SERVER_ASSIGNORS:
        raise UnsupportedAssignor(f"there is no assignor {message.server_assignor!r}: {', '.join(SERVER_ASSIGNORS)}")
    given = [message.instance_id, message.rack_id, message.subscribed_topic_regex]
    texts = [message.group_id, message.member_id, session.client_id, session.host, *(text or "" for text in given)]
    check_texts([*texts, *(message.subscribed_topic_names or ())])
    if message.subscribed_topic_regex:
        matcher(message.subscribed_topic_regex)


def check_share_heartbeat(message: ShareGroupHeartbeatRequest, session: Session) -> None:
    """Raises InvalidRequest."""
    for name, text in (("member", message.member_id), ("group", message.group_id), ("rack", message.rack_id)):
        if text == "":
            raise InvalidRequest(f"the {name} id of a heartbeat must not be empty")
    if message.member_epoch == JOIN_EPOCH and not message.subscribed_topic_names:
        raise InvalidRequest("a member that joins says what it reads: subscribed_topic_names")
    if message.member_epoch < LEAVE_EPOCH:
        raise InvalidRequest(f"there is no member epoch {message.member_epoch}")
    texts = [message.group_id, message.member_id, message.rack_id or "", session.client_id, session.host]
    check_texts([*texts, *(message.subscribed_topic_names or ())])


def _check_join(message: ConsumerGroupHeartbeatRequest) -> None:
    if message.rebalance_timeout_ms == NOT_SAID:
        raise InvalidRequest("a member that joins needs a rebalance_timeout_ms")
    if message.topic_partitions != []:
        raise InvalidRequest("a member that joins must have no partitions: give them up, and send an empty list")
    if message.subscribed_topic_names is None and message.subscribed_topic_regex is None:
        raise InvalidRequest(
            "a member that joins says what it reads, be it nothing: subscribed_topic_names or subscribed_topic_regex"
        )


def check_group_id(group_id: str) -> None:
    """Raise InvalidGroupId for an id that is empty."""
    if not group_id:
        raise InvalidGroupId("a group needs an id that is not empty")


def refusal(message: Any, error: ProtocolError) -> object:
    """The answer that refuses a message as a whole."""
    match message:
        case LeaveGroupRequest() if isinstance(error, UnknownMemberId):
            return message.answered([error for _ in message.members])
        case _:
            return message.refused(error)
