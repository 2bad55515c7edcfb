"""AlterConfigs and IncrementalAlterConfigs: configs of topics, brokers and groups, all at once or one by one (KIP-339).

AlterConfigs says all configs that a resource is to have: those that it does not name go back to their defaults.
IncrementalAlterConfigs sets, deletes, appends to and subtracts from single ones.

A resource that is named twice is InvalidRequest. Of others the controller tells the first that is wrong. What is told
of a name that is no config says which there are, in a request of few resources.
"""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from pylog.config import TopicConfig
from pylog.config.options import kafka_name
from pylog.errors import InvalidConfig, InvalidRequest, PylogError
from pylog.protocol.messages.configs import (
    GIVES_VALUE,
    OPERATIONS,
    AlterConfigsRequest,
    ConfigChange,
    IncrementalAlterConfigsRequest,
    ResourceChange,
    ResourceType,
    config_resource,
)

__all__ = ["all_of", "changed", "some_of"]

R = TypeVar("R")
FEW = 10


def all_of(resource: AlterConfigsRequest.AlterConfigsResource) -> ResourceChange:
    """The change by which a resource has the configs of an AlterConfigs and no others. Raises InvalidRequest."""
    changes = [ConfigChange(config.name, config.value) for config in resource.configs]
    return ResourceChange(config_resource(resource.resource_type, resource.resource_name), changes, is_whole=True)


def some_of(resource: IncrementalAlterConfigsRequest.AlterConfigsResource) -> ResourceChange:
    """The change that an IncrementalAlterConfigs asks for. Raises InvalidRequest."""
    named = config_resource(resource.resource_type, resource.resource_name)
    return ResourceChange(named, [_change(config) for config in resource.configs])


def _change(config: IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig) -> ConfigChange:
    operation = config.config_operation
    if not 0 <= operation < len(OPERATIONS):
        raise InvalidRequest(f"{config.name}: operation {operation} is not known")
    return ConfigChange(config.name, config.value, OPERATIONS[operation])


def changed(
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest, read: Callable[..., ResourceChange],
    change: Callable[[list[ResourceChange]], list[PylogError | None]],
) -> list[PylogError | None]:  # fmt: skip
    """Change the resources of a request, each of which `read` reads, and give the error of each."""
    times_named = Counter((one.resource_type, one.resource_name) for one in request.resources)
    names = frozenset(TopicConfig.kinds()) if len(request.resources) > FEW else None
    errors: list[PylogError | None] = []
    changes: list[ResourceChange] = []
    for resource in request.resources:
        try:
            if times_named[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequest(f"{resource.resource_name!r} is named more than once in one request")
            wanted = read(resource)
            if names is not None and wanted.resource.type is ResourceType.TOPIC:
                _check_names(wanted, names)
            changes.append(wanted)
            errors.append(None)
        except PylogError as error:
            errors.append(error.with_traceback(None))
    tried = iter(change(changes))
    return [next(tried) if error is None else error for error in errors]


def _check_names(change: ResourceChange, names: frozenset[str]) -> None:
    for one in change.changes:
        if one.operation in GIVES_VALUE and kafka_name(one.name) not in names:
            raise InvalidConfig(f"{one.name} is not a config of topics")
