"""AlterConfigs and IncrementalAlterConfigs: the configs of topics, all at once or one by one (KIP-339).

AlterConfigs says all configs that a topic is to have: those that it does not name go back to their defaults.
IncrementalAlterConfigs sets, deletes, appends to and subtracts from single ones. In all versions alike.

The first that is wrong is told: a config twice or without a value, an append to what is no list, the name of the topic,
the configs, and then that there is no such topic (Kafka: ConfigAdminManager, ConfigurationControlManager).

The configs of the node cannot be changed while it runs: that is InvalidRequest. A resource that is named twice is, too.
What is told of a name that is no config says which there are, in a request of few resources.
"""

from collections import Counter
from collections.abc import Callable

from pylog.config import TopicConfig
from pylog.errors import InvalidConfig, InvalidRequest, PylogError
from pylog.protocol.messages import AlterConfigs, ConfigChange, TopicChange, TopicsChanged
from pylog.protocol.topic_names import validate_topic_name
from pylog.protocol.wire.mapping import Body, error_code, error_message
from pylog.protocol.wire.topics import changed_topic, config_change
from pylog.server.api.call import Answer, Outcome, Request, api
from pylog.server.api.describe_configs import TOPIC, check_broker, overrides_of
from pylog.server.served_node import ServedNode

FEW = 10
ALTERS = frozenset({0, 2})
"""The operations that give a value: set and append."""
Read = Callable[[Body, Request, ServedNode], TopicChange]


def _all_of(resource: Body, request: Request, node: ServedNode) -> TopicChange:
    """The change by which a topic has the configs of an AlterConfigs and no others."""
    changes = [ConfigChange(config["name"], config["value"]) for config in resource["configs"]]
    checked = _checked(resource["resourceName"], changes)
    given = {change.name for change in changes}
    there = overrides_of(resource["resourceName"], request, node)
    gone = [ConfigChange(name, operation="delete") for name in there if name not in given]
    return changed_topic(resource["resourceName"], [*gone, *checked.changes])


def _some_of(resource: Body, request: Request, node: ServedNode) -> TopicChange:
    return _checked(resource["resourceName"], [config_change(config) for config in resource["configs"]])


def _checked(name: str, changes: list[ConfigChange]) -> TopicChange:
    """The change of a topic, which may not be there. Raises InvalidRequest, InvalidConfig, InvalidTopic."""
    changed = changed_topic(name, changes)
    for change in changes:
        if change.value is None and change.operation != "delete":
            raise InvalidRequest(f"{change.name}: a value is missing")
    for change in changes:
        if change.operation in ("append", "subtract"):
            TopicConfig.check_list(change.name)
    if not name:
        raise InvalidRequest("a topic has a name")
    validate_topic_name(name)
    TopicConfig.from_kafka({change.name: change.value for change in changes if change.operation in ("set", "append")})
    return changed


def _answer(read: Read) -> Answer:
    def answer(request: Request, node: ServedNode) -> Outcome:
        resources = request.body["resources"]
        times_named = Counter((one["resourceType"], one["resourceName"]) for one in resources)
        names = frozenset(TopicConfig.kinds()) if len(resources) > FEW else None
        errors: list[PylogError | None] = []
        changes: list[TopicChange] = []
        for resource in resources:
            try:
                _check(resource, times_named, names, node)
                changes.append(read(resource, request, node))
                errors.append(None)
            except PylogError as error:
                errors.append(error.with_traceback(None))
        message = AlterConfigs(changes, validate_only=request.body["validateOnly"])
        changed: TopicsChanged = node.ask(message, request.session)
        tried = iter(changed.errors)
        errors = [next(tried) if error is None else error for error in errors]
        return {"responses": [_result(*pair) for pair in zip(resources, errors, strict=True)]}

    return answer


def _check(
    resource: Body, times_named: Counter[tuple[int, str]], names: frozenset[str] | None, node: ServedNode
) -> None:  # fmt: skip
    kind, name = resource["resourceType"], resource["resourceName"]
    if times_named[kind, name] > 1:
        raise InvalidRequest(f"{name!r} is named more than once in one request")
    if kind != TOPIC:
        check_broker(kind, name, node)
        raise InvalidRequest("the configs of the node cannot be changed while it runs: give them when it is opened")
    if names is not None:
        _check_names(resource["configs"], names)


def _check_names(configs: list[Body], names: frozenset[str]) -> None:
    for config in configs:
        if config.get("configOperation", 0) in ALTERS and config["name"].replace("_", ".") not in names:
            raise InvalidConfig(f"{config['name']} is not a config of topics")


def _result(resource: Body, error: PylogError | None) -> Body:
    return {
        "errorCode": error_code(error), "errorMessage": error_message(error),
        "resourceType": resource["resourceType"], "resourceName": resource["resourceName"],
    }  # fmt: skip


APIS = (
    api("AlterConfigs", _answer(_all_of), may_wait=True),
    api("IncrementalAlterConfigs", _answer(_some_of), may_wait=True),
)
