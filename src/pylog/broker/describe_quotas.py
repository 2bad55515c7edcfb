"""The description of quotas: those of the entities that a filter matches. (Kafka: ClientQuotasImage)"""

from pylog.errors import InvalidRequest, ProtocolError, UnsupportedVersion
from pylog.protocol.messages.quotas import (
    QUOTA_TYPES,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaMatch,
)
from pylog.protocol.metadata_image import MetadataImage

__all__ = ["describe_quotas"]

Component = DescribeClientQuotasRequest.ComponentData


def describe_quotas(image: MetadataImage, asked: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """The quotas of the entities that fulfil all conditions; with `strict`, of those that have no other type."""
    kinds: list[str] = []
    for component in asked.components:
        error = _refusal(component, kinds)
        if error is not None:
            return asked.refused(error)
        kinds.append(component.entity_type)
    if "ip" in kinds and len(kinds) > 1:
        told = "Invalid entity filter component combination. IP filter component should not be used with"
        return asked.refused(InvalidRequest(f"{told} user or clientId filter component."))
    return DescribeClientQuotasResponse.of(
        (entity, values)
        for entity, values in image.quotas.items()
        if (not asked.strict or len(entity) == len(kinds)) and _matches(dict(entity), asked.components)
    )


def _refusal(component: Component, kinds: list[str]) -> ProtocolError | None:
    """The error of a component behind those of these types."""
    kind, how, match = component.entity_type, component.match_type, component.match
    if not kind:
        return InvalidRequest("Invalid empty entity type.")
    if kind in kinds:
        return InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in QUOTA_TYPES:
        return UnsupportedVersion(f"Unsupported entity type {kind}")
    if how not in list(QuotaMatch):
        return InvalidRequest(f"Unknown match type {how}")
    if how == QuotaMatch.EXACT and match is None:
        return InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if how != QuotaMatch.EXACT and match is not None:
        told = f"Request specified MATCH_TYPE_{QuotaMatch(how).name}, but also specified a match string."
        return InvalidRequest(told)
    return None


def _matches(entity: dict[str, str | None], components: list[Component]) -> bool:
    return all(
        one.entity_type in entity and (one.match_type == QuotaMatch.SPECIFIED or entity[one.entity_type] == one.match)
        for one in components
    )
