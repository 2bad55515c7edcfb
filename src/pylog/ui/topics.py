"""The pages of topics: all of them, one with its partitions, its configs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response

from pylog.client.admin.topics import DescribedTopic
from pylog.errors import UnknownTopicOrPartition
from pylog.handles.topic_facts import Ends, ends_of_partitions, facts_of, readers_of_topic
from pylog.protocol.messages import INTERNAL_TOPICS
from pylog.record import TopicPartition
from pylog.runtime.words import size_text
from pylog.ui.history import LogHistory, level_line, rate_line
from pylog.ui.pages import page, seen
from pylog.ui.parameters import flag
from pylog.ui.rates import GrowthRate
from pylog.ui.sampling import GROUPS_MAX, LogLooks, LogSample
from pylog.ui.sorting import sorted_lines
from pylog.ui.source import Source

__all__ = ["config", "topic", "topics"]


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A topic in the list; `size`: None before the first look at the log; `lag`: that of all groups together, None
    without one.
    """

    name: str
    partitions: int
    offsets: int
    size: int | None
    rate: GrowthRate | None
    lag: int | None
    under_replicated: int
    is_damaged: bool
    is_internal: bool


COLUMNS: dict[str, Callable[[TopicLine], object]] = {
    "topic": lambda one: one.name, "partitions": lambda one: one.partitions, "offsets": lambda one: one.offsets,
    "size": lambda one: one.size, "records": lambda one: one.rate and one.rate.records,
    "growth": lambda one: one.rate and one.rate.size, "lag": lambda one: one.lag,
}  # fmt: skip


def topics(request: Request) -> Response:
    """All topics, those with problems first: partitions, records, sizes, how quickly they grow, and the lag."""
    source, words = seen(request), request.query_params
    looks: LogLooks = request.app.state.looks
    last = looks.last()
    sample = last or LogSample({})
    metadata, lags = {one.name: one for one in source.topics()}, sample.lag_of_topic()

    def line(one: DescribedTopic, ends: Mapping[TopicPartition, Ends]) -> TopicLine:
        keys = [TopicPartition(one.name, part.partition) for part in one.partitions]
        known = [ends[key] for key in keys if key in ends]
        return TopicLine(
            one.name, len(keys), sum(one.count for one in known), sum(one.size for one in known) if last else None,
            request.app.state.rates.of(keys), lags.get(one.name), _under_replicated(one), one.name in sample.damaged,
            one.name in INTERNAL_TOPICS,
        )  # fmt: skip

    wanted, is_whole = words.get("name", "").strip(), flag(words, "internal")
    lines = [
        line(one, sample.ends)
        for one in metadata.values()
        if (is_whole or one.name not in INTERNAL_TOPICS) and wanted.lower() in one.name.lower()
    ]
    view = sorted_lines(words, lines, COLUMNS, lambda one: (not one.is_damaged, not one.under_replicated, one.name))
    live = _ends_now(source, [metadata[one.name] for one in view.lines], sample)
    view = replace(view, lines=[line(metadata[one.name], live) for one in view.lines])
    facts = _facts(list(metadata.values()), sample)
    return page(
        request, "topics.html", view=view, wanted=wanted, is_whole=is_whole, facts=facts, is_looked_at=last is not None
    )


def _under_replicated(topic: DescribedTopic) -> int:
    return sum(len(one.isr) < len(one.replicas) for one in topic.partitions)


def _ends_now(source: Source, topics: list[DescribedTopic], sample: LogSample) -> dict[TopicPartition, Ends]:
    """The extents of a few topics as they are now, with sizes of the last look."""
    keys = [TopicPartition(topic.name, one.partition) for topic in topics for one in topic.partitions]
    sizes = {key: sample.ends[key].size for key in keys if key in sample.ends}
    try:
        return ends_of_partitions(source.log, keys, sizes)
    except UnknownTopicOrPartition:
        # One was deleted meanwhile.
        return {key: sample.ends[key] for key in sizes}


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The facts that matter first. `furthest`: the group and topic with the largest lag, and that."""

    topics: int
    partitions: int
    under_replicated: int
    damaged: list[str]
    furthest: tuple[str, str, int] | None


def _facts(topics: list[DescribedTopic], sample: LogSample) -> LogFacts:
    group, lag = max(sample.lags.items(), key=lambda one: one[1], default=(("", ""), 0))
    return LogFacts(
        len(topics), sum(len(one.partitions) for one in topics), sum(map(_under_replicated, topics)),
        sorted(sample.damaged), (*group, lag) if lag else None,
    )  # fmt: skip


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
    history: LogHistory = request.app.state.history
    drawn = (
        rate_line("Records/s", history.of("records", name), "{:,.1f}".format),
        rate_line("Growth/s", history.of("bytes", name), lambda one: size_text(int(one))),
        level_line("Lag", history.of("lag", name), "{:,.0f}".format),
    )
    return page(
        request, "topic.html", drawn=drawn, topic=name, facts=facts, rates=rates, has_files=source.files is not None,
        readers=sorted(readers, key=lambda one: (-(one.lag or 0), one.group)), unasked=max(0, len(groups) - GROUPS_MAX),
    )  # fmt: skip


def config(request: Request) -> Response:
    """The configs of a topic, and which of them are set on it."""
    source, name = seen(request), request.path_params["topic"]
    found = source.log.admin.describe_topic_config(name)
    return page(request, "config.html", topic=name, configs=found)
