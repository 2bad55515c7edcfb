"""The configs of topics, of this node, of all nodes and of groups.

The error of a resource names its first wrong config. (Kafka: ConfigAdminManager, ConfigurationControlManager)
"""

from collections.abc import Callable, Mapping, Sequence

from pylog.config import DynamicBrokerConfig, GroupConfig, TopicConfig
from pylog.config.dynamic import altered_config, broker_kinds, checked_text
from pylog.config.options import Kind, SomeOf, kafka_name, stored_text
from pylog.errors import InvalidConfig, InvalidRequest, PylogError
from pylog.protocol.messages import ConfigResource, ResourceChange, ResourceType
from pylog.protocol.messages.configs import GIVES_VALUE
from pylog.protocol.metadata_changes import change_config
from pylog.protocol.metadata_image import MetadataImage
from pylog.protocol.topic_names import METADATA_TOPIC, validate_topic_name


class ConfigControl:
    """Decides about configs; `configs` are those in force on this node."""

    def __init__(self, node_id: int, configs: DynamicBrokerConfig, image: Callable[[], MetadataImage]) -> None:
        self._node_id = node_id
        self._configs = configs
        self._image = image

    def alter(self, changes: Sequence[ResourceChange]) -> tuple[list[bytes], list[PylogError | None]]:
        """The records that change what is set on some resources, each of them once, and the error of each.

        A resource with an error stays as it is: InvalidRequest, InvalidConfig, InvalidTopic, UnknownTopicOrPartition.
        """
        records: list[bytes] = []
        errors: list[PylogError | None] = []
        for change in changes:
            try:
                records += _differences(change.resource, *self._checked(change))
            except PylogError as error:
                errors.append(error.with_traceback(None))
            else:
                errors.append(None)
        return records, errors

    def take_topic_config(self, name: str, config: Mapping[str, str]) -> list[bytes]:
        """The records that give a topic that is followed the overrides of its leader, whatever they are.

        Raises UnknownTopicOrPartition.
        """
        return _differences(ConfigResource(ResourceType.TOPIC, name), self._image().topic(name).config, config)

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
        before = self._image().topic(name).config
        defaults = TopicConfig.loaded({}, defaults=self._configs.current.topic_defaults).to_kafka()
        return before, TopicConfig.canonical(_changed(before, change, defaults, TopicConfig.kinds()))

    def _of_broker(self, change: ResourceChange) -> tuple[Mapping[str, str], dict[str, str]]:
        check_broker(change.resource.name, self._node_id)
        configs = self._configs
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
        before, node = self._configs.group_overrides(change.resource.name), self._configs.current
        kinds, defaults = GroupConfig.kinds(), GroupConfig.of_node(node).to_kafka()
        wanted = _changed(before, change, defaults, kinds)
        # Another program may have set what is not known here.
        known = {name: text for name, text in wanted.items() if name in kinds or name not in before}
        GroupConfig.from_kafka({**defaults, **known}).check_within(node)
        return before, wanted | {name: stored_text(name, kinds[name], text) for name, text in known.items()}


def check_broker(name: str, node_id: int) -> None:
    """Raise InvalidRequest for the name of a broker that is not this one; "" means all."""
    if name in ("", str(node_id)):
        return
    if not name.isdecimal():
        raise InvalidRequest(f"Broker id must be an integer, but it is: {name}")
    raise InvalidRequest(f"Unexpected broker id, expected {node_id} or empty string, but received {name}")


def _differences(resource: ConfigResource, before: Mapping[str, str], wanted: Mapping[str, str]) -> list[bytes]:
    """The records that make of what is set on a resource what is wanted."""
    changes: dict[str, str | None] = {name: None for name in before if name not in wanted}
    changes |= {name: text for name, text in wanted.items() if before.get(name) != text}
    return change_config(resource, changes)


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
