"""AlterConfigs and IncrementalAlterConfigs: configs of topics, brokers and groups, all at once or one by one (KIP-339).

AlterConfigs says all configs that a resource is to have: those that it does not name go back to their defaults.
IncrementalAlterConfigs sets, deletes, appends to and subtracts from single ones. In all versions alike.

A resource that is named twice is InvalidRequest. Of others `ConfigChanges` tells the first that is wrong. What is told
of a name that is no config says which there are, in a request of few resources.
"""

from collections import Counter
from collections.abc import Callable

from pylog.config import TopicConfig
from pylog.errors import InvalidConfig, InvalidRequest, PylogError
from pylog.protocol.error_codes import error_code, error_message
from pylog.protocol.messages import AlterConfigs, ConfigChange, ConfigsAltered, ResourceChange, ResourceType
from pylog.protocol.messages.configs import GIVES_VALUE, OPERATIONS
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Answer, Outcome, Request, api
from pylog.server.api.describe_configs import config_resource
from pylog.server.served_node import ServedNode

FEW = 10
Read = Callable[[Body], ResourceChange]


def _all_of(resource: Body) -> ResourceChange:
    """The change by which a resource has the configs of an AlterConfigs and no others."""
    changes = [ConfigChange(config["name"], config["value"]) for config in resource["configs"]]
    return ResourceChange(config_resource(resource), changes, is_whole=True)


def some_of(resource: Body) -> ResourceChange:
    return ResourceChange(config_resource(resource), [_change(config) for config in resource["configs"]])


def _change(config: Body) -> ConfigChange:
    operation = config["configOperation"]
    if not 0 <= operation < len(OPERATIONS):
        raise InvalidRequest(f"{config['name']}: operation {operation} is not known")
    return ConfigChange(config["name"], config["value"], OPERATIONS[operation])


def _answer(read: Read) -> Answer:
    def answer(request: Request, node: ServedNode) -> Outcome:
        resources = request.body["resources"]
        times_named = Counter((one["resourceType"], one["resourceName"]) for one in resources)
        names = frozenset(TopicConfig.kinds()) if len(resources) > FEW else None
        errors: list[PylogError | None] = []
        changes: list[ResourceChange] = []
        for resource in resources:
            try:
                if times_named[resource["resourceType"], resource["resourceName"]] > 1:
                    raise InvalidRequest(f"{resource['resourceName']!r} is named more than once in one request")
                change = read(resource)
                if names is not None and change.resource.type is ResourceType.TOPIC:
                    _check_names(change, names)
                changes.append(change)
                errors.append(None)
            except PylogError as error:
                errors.append(error.with_traceback(None))
        message = AlterConfigs(changes, validate_only=request.body["validateOnly"])
        altered: ConfigsAltered = node.ask(message, request.session)
        tried = iter(altered.errors)
        errors = [next(tried) if error is None else error for error in errors]
        return {"responses": [_result(*pair) for pair in zip(resources, errors, strict=True)]}

    return answer


def _check_names(change: ResourceChange, names: frozenset[str]) -> None:
    for one in change.changes:
        if one.operation in GIVES_VALUE and one.name.replace("_", ".") not in names:
            raise InvalidConfig(f"{one.name} is not a config of topics")


def _result(resource: Body, error: PylogError | None) -> Body:
    return {
        "errorCode": error_code(error), "errorMessage": error_message(error),
        "resourceType": resource["resourceType"], "resourceName": resource["resourceName"],
    }  # fmt: skip


APIS = (
    api("AlterConfigs", _answer(_all_of), may_wait=True),
    api("IncrementalAlterConfigs", _answer(some_of), may_wait=True),
)
