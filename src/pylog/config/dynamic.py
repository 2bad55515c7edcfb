"""The configs of a node that runs: those that it was given, and what has been altered since. (KIP-226)

    own        set on this node                     DYNAMIC_BROKER_CONFIG
    cluster    set on every node of the cluster     DYNAMIC_DEFAULT_BROKER_CONFIG
    given      when the node was opened             STATIC_BROKER_CONFIG
               Kafka's default, or that of pylog    DEFAULT_CONFIG

The first one that has a config decides. `own` and `cluster` are in the metadata log, and are looked up there each time:
so a change of the log is a change of what the node goes by. The same is true for groups.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

from pylog.config.node import GroupConfig, NodeConfig
from pylog.config.options import Kind, stored_text
from pylog.config.topic import TopicConfig
from pylog.errors import InvalidConfig, InvalidRequest

logger = logging.getLogger("pylog.config")

DYNAMIC = frozenset({
    "log.cleaner.backoff.ms", "log.cleaner.dedupe.buffer.size", "log.cleaner.io.max.bytes.per.second",
    "max.connection.creation.rate", "max.connections", "max.connections.per.ip", "producer.id.expiration.ms",
    "transaction.partition.verification.enable",
})  # fmt: skip
"""The node's own configs that can be altered while it runs, of those that Kafka alters; the defaults of topics, by
their first broker name, can be, too.
"""


class Altered(NamedTuple):
    """The altered configs of a node in the metadata log: set on all nodes of the cluster, and on this one."""

    cluster: Mapping[str, str]
    own: Mapping[str, str]


NOTHING_ALTERED = Altered({}, {})


class DynamicBrokerConfig:
    """The configs in force on a node. Thread-safe.

    `altered` looks up what the metadata log has for this node, `of_group` what it has for a group; without them nothing
    is ever set. As long as nothing has changed each lookup gives the same objects.
    """

    def __init__(
        self, given: NodeConfig, altered: Callable[[], Altered] = lambda: NOTHING_ALTERED,
        of_group: Callable[[str], Mapping[str, str]] = lambda _: NOTHING_ALTERED.own,
    ) -> None:  # fmt: skip
        self.given = given
        self._altered = altered
        self._of_group = of_group
        self._known: tuple[Altered, NodeConfig] = NOTHING_ALTERED, given
        self._groups: dict[str, tuple[Mapping[str, str], NodeConfig, GroupConfig]] = {}
        """The groups on which something is set, and "" for all others: what they go by, and what it was made of."""

    @cached_property
    def given_texts(self) -> Mapping[str, str]:
        """The given configs of the node by Kafka's names, in Kafka's text forms."""
        return self.given.to_kafka()

    @property
    def altered(self) -> Altered:
        """The configs that were set on all nodes, and on this one."""
        return self._altered()

    @property
    def current(self) -> NodeConfig:
        """The config by which the node goes now."""
        seen, config = self._known
        now = self._altered()
        if now.cluster is not seen.cluster or now.own is not seen.own:
            try:
                config = altered_config(self.given, now)
            except InvalidConfig as error:
                # Another program has stored them.
                logger.error("the node's configs in the metadata log have no effect: %s", error)
                config = self.given
            self._known = now, config
        return config

    def group_overrides(self, group_id: str) -> Mapping[str, str]:
        """The configs that are set on a group."""
        return self._of_group(group_id)

    def of_group(self, group_id: str) -> GroupConfig:
        """The config by which a group goes now."""
        stored, node = self._of_group(group_id), self.current
        key = group_id if stored else ""
        known = self._groups.get(key)
        if known is None or known[0] is not stored or known[1] is not node:
            known = self._groups[key] = stored, node, GroupConfig.loaded(stored, node)
        return known[2]


def altered_config(given: NodeConfig, altered: Altered) -> NodeConfig:
    """The config of a node after what has been set. A value that cannot be used is ignored, with a warning in the log.

    Raises InvalidConfig where values do not go together.
    """
    values: dict[str, Any] = {}
    for name, text in {**altered.cluster, **altered.own}.items():
        kind = dynamic_kinds().get(name)
        if kind is None:
            logger.warning("the node's config %s=%s has no effect: it cannot be altered here", name, text)
            continue
        try:
            values[name] = kind.parse(text)
        except ValueError:
            logger.warning("the node's config %s=%s has no effect: not %s", name, text, kind.allowed)
    topics = _topic_fields()
    defaults = {topics[name]: value for name, value in values.items() if name in topics}
    own = {name.replace(".", "_"): value for name, value in values.items() if name not in topics}
    return replace(given, topic_defaults=replace(given.topic_defaults, **defaults), **own)


def checked_text(name: str, value: object) -> str:
    """A value for a config that can be altered, as it is stored. Raises InvalidRequest for a config that can only be
    given when the node is opened, InvalidConfig for an unknown name and a bad value.
    """
    kind = dynamic_kinds().get(name)
    if kind is None:
        if name not in broker_kinds():
            NodeConfig.from_kafka({name: value})
        raise InvalidRequest(f"Cannot update these configs dynamically: [{name}]")
    return stored_text(name, kind, value)


@cache
def _topic_fields() -> dict[str, str]:
    """The fields of TopicConfig by the first name that a broker has for them."""
    return {spec.metadata["broker"][0]: spec.name for spec in fields(TopicConfig) if spec.metadata["broker"]}


@cache
def broker_kinds() -> dict[str, Kind]:
    """The kind of each config of a node, the defaults of topics too, by the broker's names."""
    of_topics = {
        broker_name: TopicConfig.kinds()[name]
        for name, broker_names in TopicConfig.broker_names().items()
        for broker_name in broker_names
    }
    return {**of_topics, **NodeConfig.kinds()}


@cache
def dynamic_kinds() -> dict[str, Kind]:
    """The kind of each config that can be altered while the node runs."""
    names = DYNAMIC | _topic_fields().keys()
    return {name: kind for name, kind in broker_kinds().items() if name in names}
