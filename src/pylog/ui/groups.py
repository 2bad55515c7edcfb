"""The pages of groups: all with their lag, one with its members, and what changes one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pylog.client.admin.admin import Admin
from pylog.client.admin.groups import ListedGroup
from pylog.client.admin.offsets import PartitionLag
from pylog.client.admin.share_offsets import ShareStanding
from pylog.errors import PylogError
from pylog.handles.any_log import AnyLog
from pylog.record import TopicPartition
from pylog.ui.history import LogHistory, level_line
from pylog.ui.pages import after, form, page, seen
from pylog.ui.parameters import choice, moment_ms, needed, needed_number, needed_partition
from pylog.ui.sampling import GROUPS_MAX
from pylog.ui.sorting import sorted_lines
from pylog.ui.topic_changes import changing

__all__ = ["delete", "delete_offsets", "group", "groups", "reset_offsets"]

SHARE = "Share"
SHARE_WAYS = ("earliest", "latest", "offset", "time")
WAYS = (*SHARE_WAYS, "shift")


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group in the list; `lag` is None where it is not known."""

    listed: ListedGroup
    members: int | None = None
    lag: int | None = None


COLUMNS: dict[str, Callable[[GroupLine], object]] = {
    "group": lambda one: one.listed.group_id, "state": lambda one: one.listed.state,
    "type": lambda one: one.listed.type, "members": lambda one: one.members, "lag": lambda one: one.lag,
}  # fmt: skip


def _total(lags: dict[TopicPartition, PartitionLag]) -> int:
    return sum(one.lag or 0 for one in lags.values())


def _line(admin: Admin, listed: ListedGroup) -> GroupLine:
    try:
        return GroupLine(listed, len(admin.describe_group(listed.group_id).members), _total(admin.lag(listed.group_id)))
    except PylogError:
        # It has ended meanwhile, or a coordinator is on its way.
        return GroupLine(listed)


def groups(request: Request) -> Response:
    """All groups."""
    admin = seen(request).log.admin
    listed = admin.list_groups()
    lines = [_line(admin, one) for one in listed[:GROUPS_MAX]]
    lines += [GroupLine(one) for one in listed[GROUPS_MAX:]]
    view = sorted_lines(request.query_params, lines, COLUMNS, lambda one: (-(one.lag or 0), one.listed.group_id))
    return page(request, "groups.html", view=view, measured=GROUPS_MAX)


def group(request: Request) -> Response:
    """One group: its members, what it has committed or where it begins, and how far it is behind."""
    admin, name = seen(request).log.admin, needed(request.query_params, "id")
    found, lags = admin.describe_group(name), admin.lag(name)
    history: LogHistory = request.app.state.history
    drawn = level_line("Lag", history.of("lag of group", name), "{:,.0f}".format)
    return page(
        request, "group.html", drawn=[drawn], group=found, lags=sorted(lags.items()), total=_total(lags),
        is_share=found.type == SHARE, standing=_standing(request, name) if found.type == SHARE else None,
    )  # fmt: skip


def _standing(request: Request, name: str) -> dict[TopicPartition, ShareStanding] | None:
    """The records that members of a share group have now; None where that is not known."""
    try:
        with seen(request).working() as owner:
            return owner.admin.share_standing(name)
    except PylogError:
        # The owner is about to end, say.
        return None


def _partitions(log: AnyLog, words: Mapping[str, str]) -> list[TopicPartition] | None:
    """The partitions that a form names: of a topic, one of them, or None for all that the group has."""
    topic = words.get("topic", "").strip()
    if not topic:
        return None
    name, colon, number = topic.partition(":")
    if not colon:
        return [TopicPartition(name, view.partition) for view in log.topic(name)]
    return [TopicPartition(name, needed_partition({"partition": number}))]


def _is_share(log: AnyLog, name: str) -> bool:
    return any(one.group_id == name for one in log.admin.list_groups(types=[SHARE]))


def reset_offsets(request: Request) -> Response:
    """Reset the offsets of a group."""
    words = form(request)
    name = needed(words, "id")
    with changing(request) as log:
        is_share = _is_share(log, name)
        way = choice(words, "way", SHARE_WAYS if is_share else WAYS)
        partitions = _partitions(log, words)
        to: dict[str, Any] = {}
        if way in ("earliest", "latest"):
            to["to"] = way
        elif way == "time":
            to["time_ms"] = moment_ms(words, "value")
            if to["time_ms"] is None:
                raise HTTPException(400, "value is missing: a time like 2026-05-01T12:00 (UTC)")
        else:
            to[way] = needed_number(words, "value", 0 if way == "offset" else -(1 << 62))
        reset = log.admin.reset_share_offsets if is_share else log.admin.reset_offsets
        reset(name, partitions=partitions, **to)
    return after("offsets-reset", "group", id=name)


def delete_offsets(request: Request) -> Response:
    """Delete the offsets of a group in a topic, or in one partition of it where it is no share group."""
    words = form(request)
    name = needed(words, "id")
    topic = needed(words, "topic")
    with changing(request) as log:
        if _is_share(log, name):
            log.admin.delete_share_offsets(name, [topic])
        else:
            log.admin.delete_offsets(name, _partitions(log, words) or [])
    return after("offsets-deleted", "group", id=name)


def delete(request: Request) -> Response:
    """Delete a group that has no members, where its name was typed once more."""
    words = form(request)
    name = needed(words, "id")
    if needed(words, "confirm") != name:
        raise HTTPException(400, f"Nothing was deleted: type the name {name} to confirm.")
    with changing(request) as log:
        log.admin.delete_group(name)
    return after("group-deleted", "groups")
