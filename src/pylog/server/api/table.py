"""The API keys that are served, by number."""

from functools import cache

from pylog.protocol.wire.mapping import Body
from pylog.server.api import (
    acls,
    api_versions,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_quorum,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    list_config_resources,
    list_offsets,
    membership,
    metadata,
    offsets,
    plain,
    produce,
    replicas,
    security_off,
    share,
    share_states,
    telemetry,
    transactions,
    update_features,
)
from pylog.server.api.call import Api, Outcome, Request, api
from pylog.server.served_node import ServedNode


def _versions(request: Request, node: ServedNode) -> Outcome:
    return api_versions.answer(request, node, served_keys())


_BY_NAME: dict[str, Api] = {one.name: one for one in plain.APIS}
_BY_NAME |= {
    one.name: one
    for one in (
        produce.API, fetch.API, list_offsets.API, metadata.API,
        find_coordinator.API, describe_cluster.API, describe_topic_partitions.API,
        describe_configs.API,
        describe_groups.API, list_config_resources.API, describe_quorum.API,
        update_features.API, *replicas.APIS, *acls.APIS, *security_off.APIS, *telemetry.APIS,
        *membership.APIS, *offsets.APIS, *transactions.APIS, *share.APIS, *share_states.APIS,
        api(api_versions.NAME, _versions),
    )
}  # fmt: skip

APIS: dict[int, Api] = {one.key: one for one in sorted(_BY_NAME.values(), key=lambda one: one.key)}


@cache
def served_keys() -> list[Body]:
    """The served keys in the answer to ApiVersions."""
    return api_versions.keys(APIS.values())
