"""Quotas of clients set and removed. (Kafka: ClientQuotaControlManager)"""

import ipaddress
from collections.abc import Callable, Mapping
from math import isfinite

from pylog.errors import InvalidRequest, PolicyViolation, ProtocolError
from pylog.protocol.messages.quotas import (
    QUOTA_TYPES,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    quota_entity,
)
from pylog.protocol.metadata_changes import change_quota
from pylog.protocol.metadata_image import MetadataImage

CHANGES_MAX = 10_000
"""How many quotas one request may change."""
OF_CLIENTS = frozenset({"producer_byte_rate", "consumer_byte_rate", "request_percentage"})
OF_ADDRESSES = frozenset({"connection_creation_rate"})
NOT_KEPT = frozenset({"controller_mutation_rate"})
"""Kafka's quotas that nothing here would hold to."""
WHOLE = {
    "producer_byte_rate": ("a LONG", (1 << 63) - 1), "consumer_byte_rate": ("a LONG", (1 << 63) - 1),
    "connection_creation_rate": ("an INT", (1 << 31) - 1),
}  # fmt: skip
"""The quotas that are whole numbers, and the largest ones."""

Entry = AlterClientQuotasRequest.EntryData


class QuotaControl:
    """Decides about quotas."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def alter(self, asked: AlterClientQuotasRequest) -> tuple[list[bytes], AlterClientQuotasResponse]:
        """The records of the changes, without those of entities with an error, and the answer.

        Raises PolicyViolation: there are too many.
        """
        records: list[bytes] = []
        errors: list[ProtocolError | None] = []
        seen: set[object] = set()
        for entry in asked.entries:
            entity = quota_entity({part.entity_type: part.entity_name for part in entry.entity})
            error = InvalidRequest(f"Ignoring duplicate entity {entity}") if entity in seen else _refusal(entry)
            seen.add(entity)
            errors.append(error)
            if error is None:
                before: Mapping[str, float] = self._image().quotas.get(entity, {})
                for change in entry.ops:
                    value = None if change.remove else change.value
                    if before.get(change.key) != value:
                        records += change_quota(entity, change.key, value)
        if len(records) > CHANGES_MAX:
            raise PolicyViolation(f"a request changes {CHANGES_MAX} quotas at most, not {len(records)}")
        return ([] if asked.validate_only else records), asked.answered(errors)


def _refusal(entry: Entry) -> ProtocolError | None:
    kinds = [part.entity_type for part in entry.entity]
    told = _entity_refusal(entry, kinds)
    keys = [change.key for change in entry.ops]
    if told is None and len(set(keys)) < len(keys):
        told = "Duplicate quota key"
    if told is None:
        refusals = (_value_refusal(change, is_of_address="ip" in kinds) for change in entry.ops if not change.remove)
        told = next((refusal for refusal in refusals if refusal is not None), None)
    return None if told is None else InvalidRequest(told)


def _entity_refusal(entry: Entry, kinds: list[str]) -> str | None:
    if not kinds:
        return "Invalid empty client quota entity"
    for kind in kinds:
        if kind not in QUOTA_TYPES:
            return f"Unhandled client quota entity type: {kind}"
        if kinds.count(kind) > 1:
            return f"Invalid client quota entity, duplicate entity entry {kind}"
    for part in entry.entity:
        if part.entity_name == "":
            return f"Invalid empty name of the client quota entity {part.entity_type}"
        if part.entity_type == "ip" and part.entity_name is not None and not _is_address(part.entity_name):
            return f"{part.entity_name} is not a valid IP or resolvable host."
    if "ip" in kinds and len(kinds) > 1:
        return "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
    return None


def _value_refusal(change: Entry.OpData, *, is_of_address: bool) -> str | None:
    key, value = change.key, change.value
    if key in NOT_KEPT:
        return f"pylog has no quota {key}: nothing would hold to it"
    if key not in (OF_ADDRESSES if is_of_address else OF_CLIENTS):
        return f"Invalid configuration key {key}"
    if not isfinite(value) or value <= 0:
        return f"Quota {key} must be greater than 0"
    if key in WHOLE:
        kind, most = WHOLE[key]
        if value > most:
            return f"Proposed value for {key} is too large for {kind}."
        if value % 1 > 1e-6:
            return f"{key} cannot be a fractional value."
    return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
