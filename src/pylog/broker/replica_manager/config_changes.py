"""The changes of configs: of topics, of this node, of all nodes and of groups.

The first that is wrong is told (Kafka: ConfigAdminManager, ConfigurationControlManager). A change is in the metadata
log before anything goes by it.
"""

from collections.abc import Mapping, Sequence

from pylog.broker.describe_configs import check_broker
from pylog.broker.replica_manager.topics import LocalTopics
from pylog.config import GroupConfig, TopicConfig
from pylog.config.dynamic import altered_config, broker_kinds, checked_text
from pylog.config.options import Kind, SomeOf, kafka_name, stored_text
from pylog.errors import InvalidConfig, InvalidRequest, PylogError
from pylog.protocol.messages import ConfigResource, ResourceChange, ResourceType
from pylog.protocol.messages.configs import GIVES_VALUE
from pylog.protocol.metadata_changes import change_config
from pylog.protocol.metadata_image import MetadataDelta
from pylog.protocol.topic_names import METADATA_TOPIC, validate_topic_name
from pylog.runtime.signals import WholeLock

AT_ONCE = 1000
"""How many resources are changed by one batch of records."""
Checked = tuple[ConfigResource, Mapping[str, str], Mapping[str, str]]
"""A resource, and what is set on it before and after a change."""


class ConfigChanges:
    """Changes of configs. Thread-safe; `lock` is the node's."""

    def __init__(self, topics: LocalTopics, lock: WholeLock) -> None:
        self._topics = topics
        self._lock = lock

    def alter(self, changes: Sequence[ResourceChange], *, validate_only: bool = False) -> list[PylogError | None]:
        """Change what is set on some resources, each of them once, and give the error of each. The node goes by it at
        once. (IncrementalAlterConfigs, AlterConfigs)

        Errors are InvalidRequest, InvalidConfig, InvalidTopic, UnknownTopicOrPartition, and those of the metadata log:
        nothing is changed of that resource then.
        """
        errors: list[PylogError | None] = []
        for begin in range(0, len(changes), AT_ONCE):
            with self._lock:
                errors += self._alter(changes[begin : begin + AT_ONCE], validate_only)
        return errors

    def take_topic_config(self, name: str, config: Mapping[str, str]) -> None:
        """Give a topic that is followed the overrides that its leader has, whatever they are.

        Raises UnknownTopicOrPartition.
        """
        with self._lock:
            self._commit([(ConfigResource(ResourceType.TOPIC, name), self._topics.image_of(name).config, config)])

    def _alter(self, changes: Sequence[ResourceChange], validate_only: bool) -> list[PylogError | None]:
        errors: list[PylogError | None] = [None] * len(changes)
        checked: dict[int, Checked] = {}
        for number, change in enumerate(changes):
            try:
                checked[number] = (change.resource, *self._checked(change))
            except PylogError as error:
                errors[number] = error.with_traceback(None)
        if not validate_only:
            try:
                self._commit(list(checked.values()))
            except PylogError as error:
                for number in checked:
                    errors[number] = error
        return errors

    def _commit(self, checked: Sequence[Checked]) -> None:
        """Write down, in one batch, what is set on each resource, and go by it."""
        records = []
        for resource, before, wanted in checked:
            changes: dict[str, str | None] = {name: None for name in before if name not in wanted}
            changes |= {name: text for name, text in wanted.items() if before.get(name) != text}
            records += change_config(resource, changes)
        if records:
            self._go_by(self._topics.metadata_log.commit(records))

    def _go_by(self, delta: MetadataDelta) -> None:
        """Have the opened topics go by the configs that have changed; all of them, where one of a node has."""
        names = {resource.name for resource in delta.configs if resource.type is ResourceType.TOPIC}
        is_all = any(resource.type is ResourceType.BROKER for resource in delta.configs)
        for name in self._topics.opened if is_all else names & self._topics.opened.keys():
            self._topics.opened[name].reconfigure(self._topics.config_of(self._topics.image_of(name).config))

    # --- what is set before and after --------------------------------------------------------------------------------

    def _checked(self, change: ResourceChange) -> tuple[Mapping[str, str], dict[str, str]]:
        _check_changes(change)
        return {
            ResourceType.TOPIC: self._of_topic, ResourceType.BROKER: self._of_broker,
            ResourceType.GROUP: self._of_group,
        }[change.resource.type](change)  # fmt: skip

    def _of_topic(self, change: ResourceChange) -> tuple[Mapping[str, str], dict[str, str]]:
        name = change.resource.name
        for one in change.changes:
            if one.operation in ("append", "subtract"):
                TopicConfig.check_list(one.name)
        if not name:
            raise InvalidRequest("a topic has a name")
        if name != METADATA_TOPIC:
            validate_topic_name(name)
        TopicConfig.from_kafka({one.name: one.value for one in change.changes if one.operation in GIVES_VALUE})
        before = self._topics.image_of(name).config
        defaults = self._topics.config_of({}).to_kafka()
        return before, TopicConfig.canonical(_changed(before, change, defaults, TopicConfig.kinds()))

    def _of_broker(self, change: ResourceChange) -> tuple[Mapping[str, str], dict[str, str]]:
        check_broker(change.resource.name, self._topics.node_id)
        configs = self._topics.configs
        altered, whose = configs.altered, "own" if change.resource.name else "cluster"
        before = altered.own if change.resource.name else altered.cluster
        wanted = _changed(before, change, configs.current.to_kafka(), broker_kinds())
        try:
            wanted |= {name: checked_text(name, text) for name, text in wanted.items() if before.get(name) != text}
            altered_config(configs.given, altered._replace(**{whose: wanted}))
        except InvalidConfig as error:
            # Kafka has this error for it. (KAFKA-13609)
            raise InvalidRequest(str(error)) from error
        return before, wanted

    def _of_group(self, change: ResourceChange) -> tuple[Mapping[str, str], dict[str, str]]:
        if not change.resource.name:
            raise InvalidRequest("a group has a name: there are no configs of all groups, but the node's")
        before, node = self._topics.configs.group_overrides(change.resource.name), self._topics.config
        kinds, defaults = GroupConfig.kinds(), GroupConfig.of_node(node).to_kafka()
        wanted = _changed(before, change, defaults, kinds)
        # Another program may have set what is not known here.
        known = {name: text for name, text in wanted.items() if name in kinds or name not in before}
        GroupConfig.from_kafka({**defaults, **known}).check_within(node)
        return before, wanted | {name: stored_text(name, kinds[name], text) for name, text in known.items()}


def _check_changes(change: ResourceChange) -> None:
    """Raises InvalidRequest."""
    names = [one.name for one in change.changes]
    if len(set(names)) < len(names):
        raise InvalidRequest(f"{change.resource.name!r}: a config is changed twice in one request")
    for one in change.changes:
        if one.value is None and one.operation != "delete":
            raise InvalidRequest(f"{one.name}: a value is missing")


def _changed(
    before: Mapping[str, str], change: ResourceChange, defaults: Mapping[str, str], kinds: Mapping[str, Kind]
) -> dict[str, str]:
    """The configs `before` after some changes; lists that are not set grow and shrink from `defaults`.

    Deleting a config that is not set is no error, whatever its name. Raises InvalidConfig for an operation that makes
    no sense.
    """
    wanted = {} if change.is_whole else dict(before)
    for one in change.changes:
        name = kafka_name(one.name)
        if one.operation == "delete":
            wanted.pop(name, None)
            continue
        assert one.value is not None, "it was checked"
        if one.operation == "set":
            wanted[name] = one.value
        elif one.operation in ("append", "subtract"):
            if not isinstance(kinds.get(name), SomeOf):
                raise InvalidConfig(f"{name} is not a list: set it, there is nothing to append to or subtract from")
            given = [item.strip() for item in one.value.split(",")]
            known = wanted.get(name, defaults[name]).split(",")
            kept = [item for item in known if item and item not in given]
            wanted[name] = ",".join(kept + given if one.operation == "append" else kept)
        else:
            raise InvalidConfig(f"{name}: {one.operation!r} is not set, delete, append or subtract")
    return wanted
