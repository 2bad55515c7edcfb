"""Quotas of clients described and altered (KIP-546).

An entity names users, clients and addresses: `{"user": "ada", "client-id": None}` are the clients of ada that have no
quota of their own, as None stands for the default.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import IntEnum

from pylog.errors import PylogError
from pylog.protocol.messages.api import ApiRequest, ApiResponse, api_message

QUOTA_TYPES = ("user", "client-id", "ip")

QuotaEntity = tuple[tuple[str, str | None], ...]
"""The types and names of an entity, in the order of the types."""


class QuotaMatch(IntEnum):
    """The ways in which a component of a filter matches: a name, the default, any name."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


def quota_entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    """The key of an entity."""
    return tuple(sorted(parts.items()))


@api_message
class DescribeClientQuotasResponse(ApiResponse):
    @api_message
    class EntryData:
        """The quotas of an entity."""

        @api_message
        class EntityData:
            entity_type: str
            entity_name: str | None

        @api_message
        class ValueData:
            key: str
            value: float

        entity: list[EntityData] = field(default_factory=list)
        values: list[ValueData] = field(default_factory=list)

    throttle_time_ms: int = 0
    error: PylogError | None = None
    entries: list[EntryData] | None = field(default_factory=list)

    @classmethod
    def of(cls, quotas: Iterable[tuple[QuotaEntity, Mapping[str, float]]]) -> "DescribeClientQuotasResponse":
        """The response with these quotas."""
        one = cls.EntryData
        return cls(
            entries=[
                one(
                    entity=[one.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    values=[one.ValueData(key=key, value=value) for key, value in values.items()],
                )
                for entity, values in quotas
            ]
        )

    def quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas by entity."""
        return {
            quota_entity({part.entity_type: part.entity_name for part in one.entity}): {
                value.key: value.value for value in one.values
            }
            for one in self.entries or ()
        }


@api_message
class DescribeClientQuotasRequest(ApiRequest[DescribeClientQuotasResponse]):
    @api_message
    class ComponentData:
        """The condition that an entity has to fulfil."""

        entity_type: str
        match_type: int
        match: str | None

    components: list[ComponentData] = field(default_factory=list)
    strict: bool = False
    """Whether entities with other types besides are left out."""

    def refused(self, error: PylogError) -> DescribeClientQuotasResponse:
        return DescribeClientQuotasResponse(error=error, entries=None)


@api_message
class AlterClientQuotasResponse(ApiResponse):
    @api_message
    class EntryData:
        """The outcome of the changes of an entity."""

        @api_message
        class EntityData:
            entity_type: str
            entity_name: str | None

        error: PylogError | None = None
        entity: list[EntityData] = field(default_factory=list)

    throttle_time_ms: int = 0
    entries: list[EntryData] = field(default_factory=list)


@api_message
class AlterClientQuotasRequest(ApiRequest[AlterClientQuotasResponse]):
    @api_message
    class EntryData:
        """Changes of an entity."""

        @api_message
        class EntityData:
            entity_type: str
            entity_name: str | None

        @api_message
        class OpData:
            key: str
            value: float
            remove: bool

        entity: list[EntityData] = field(default_factory=list)
        ops: list[OpData] = field(default_factory=list)

    entries: list[EntryData] = field(default_factory=list)
    validate_only: bool = False

    @classmethod
    def of(
        cls, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool
    ) -> "AlterClientQuotasRequest":
        """The request for these changes; None removes a quota."""
        one = cls.EntryData
        return cls(
            validate_only=validate_only,
            entries=[
                one(
                    entity=[one.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    ops=[
                        one.OpData(key=key, value=0.0 if value is None else float(value), remove=value is None)
                        for key, value in values.items()
                    ],
                )
                for entity, values in changes.items()
            ],
        )

    def answered(self, errors: Iterable[PylogError | None]) -> AlterClientQuotasResponse:
        """The response with an error, or None, for each entry."""
        one = AlterClientQuotasResponse.EntryData
        return AlterClientQuotasResponse(
            entries=[
                one(
                    error=error,
                    entity=[
                        one.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                        for part in entry.entity
                    ],
                )
                for entry, error in zip(self.entries, errors, strict=True)
            ]
        )

    def refused(self, error: PylogError) -> AlterClientQuotasResponse:
        return self.answered([error] * len(self.entries))
