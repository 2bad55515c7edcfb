"""The pages of topics: all of them, one with its partitions, its configs."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from pylog.handles.topic_facts import facts_of, readers_of_topic
from pylog.protocol.messages import INTERNAL_TOPICS
from pylog.record import TopicPartition
from pylog.ui.pages import page, seen
from pylog.ui.parameters import flag
from pylog.ui.rates import GrowthRate

__all__ = ["config", "topic", "topics"]

GROUPS_MAX = 200
"""How many groups are asked whether they read a topic."""


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A topic in the list."""

    name: str
    partitions: int
    offsets: int
    size: int
    rate: GrowthRate | None
    is_internal: bool


def topics(request: Request) -> Response:
    """All topics: partitions, records, sizes, and how quickly they grow."""
    source, rates = seen(request), request.app.state.rates
    words = request.query_params
    ends, wanted = source.ends(), words.get("name", "").strip()
    names: dict[str, list[TopicPartition]] = {}
    for key in ends:
        names.setdefault(key.topic, []).append(key)
    lines = [
        TopicLine(
            name, len(keys), sum(ends[key].count for key in keys), sum(ends[key].size for key in keys),
            rates.of(keys), name in INTERNAL_TOPICS,
        )
        for name, keys in sorted(names.items())
    ]  # fmt: skip
    is_whole = flag(words, "internal")
    shown = [line for line in lines if (is_whole or not line.is_internal) and wanted.lower() in line.name.lower()]
    return page(request, "topics.html", lines=shown, wanted=wanted, is_whole=is_whole)


def topic(request: Request) -> Response:
    """One topic: its partitions, and how far each has come."""
    source, name = seen(request), request.path_params["topic"]
    facts = facts_of(source.log, name)
    rates = {
        one.partition: request.app.state.rates.of([TopicPartition(name, one.partition)]) for one in facts.partitions
    }
    ends = {one.partition: one.high_watermark for one in facts.partitions}
    groups = [one.group_id for one in source.log.admin.list_groups()]
    readers = readers_of_topic(source.log, name, ends, groups[:GROUPS_MAX])
    return page(
        request, "topic.html", topic=name, facts=facts, rates=rates, has_files=source.files is not None,
        readers=sorted(readers, key=lambda one: (-(one.lag or 0), one.group)), unasked=max(0, len(groups) - GROUPS_MAX),
    )  # fmt: skip


def config(request: Request) -> Response:
    """The configs of a topic, and which of them are set on it."""
    source, name = seen(request), request.path_params["topic"]
    found = source.log.admin.describe_topic_config(name)
    return page(request, "config.html", topic=name, configs=found)
