"""ACLs described, made and deleted (KIP-140, KIP-290).

Numbers are those of `protocol.acls`. One that it does not know stands for UNKNOWN there, and is not refused here.
"""

from collections.abc import Iterable
from dataclasses import field
from enum import IntEnum
from typing import Protocol, TypeVar

from pylog.errors import PylogError
from pylog.protocol.acls import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pylog.protocol.messages.api import ApiRequest, ApiResponse, api_message

E = TypeVar("E", bound=IntEnum)
LITERAL = PatternType.LITERAL.value


def _known(kind: type[E], number: int) -> E:
    """The value of a number; UNKNOWN for one from the future. (Kafka: fromCode)"""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


class _Entry(Protocol):
    """The part of an ACL without its pattern, in any message."""

    principal: str
    host: str
    operation: int
    permission_type: int


def _binding(kind: int, name: str, pattern: int, entry: _Entry) -> AclBinding:
    return AclBinding(
        _known(AclResourceType, kind), name, entry.principal, _known(AclOperation, entry.operation),
        _known(PatternType, pattern), entry.host, _known(AclPermissionType, entry.permission_type),
    )  # fmt: skip


@api_message
class DescribeAclsResponse(ApiResponse):
    @api_message
    class DescribeAclsResource:
        """A pattern, and its ACLs."""

        @api_message
        class AclDescription:
            principal: str
            host: str
            operation: int
            permission_type: int

        resource_type: int
        resource_name: str
        pattern_type: int = LITERAL
        acls: list[AclDescription] = field(default_factory=list)

    throttle_time_ms: int = 0
    error: PylogError | None = None
    resources: list[DescribeAclsResource] = field(default_factory=list)

    @classmethod
    def of(cls, acls: Iterable[AclBinding]) -> "DescribeAclsResponse":
        """The response with these ACLs, by pattern."""
        made: dict[tuple[int, str, int], DescribeAclsResponse.DescribeAclsResource] = {}
        for acl in acls:
            key = acl.resource_type.value, acl.name, acl.pattern_type.value
            resource = made.get(key)
            if resource is None:
                kind, name, pattern = key
                resource = made[key] = cls.DescribeAclsResource(
                    resource_type=kind, resource_name=name, pattern_type=pattern
                )  # fmt: skip
            resource.acls.append(
                resource.AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation.value,
                    permission_type=acl.permission_type.value,
                )
            )
        return cls(resources=list(made.values()))

    def bindings(self) -> list[AclBinding]:
        """The ACLs."""
        return [
            _binding(resource.resource_type, resource.resource_name, resource.pattern_type, acl)
            for resource in self.resources
            for acl in resource.acls
        ]


@api_message
class DescribeAclsRequest(ApiRequest[DescribeAclsResponse]):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int = LITERAL
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

    @classmethod
    def of(cls, wanted: AclBindingFilter) -> "DescribeAclsRequest":
        """The request for the ACLs of a filter."""
        return cls(
            resource_type_filter=wanted.resource_type, resource_name_filter=wanted.name,
            pattern_type_filter=wanted.pattern_type, principal_filter=wanted.principal, host_filter=wanted.host,
            operation=wanted.operation, permission_type=wanted.permission_type,
        )  # fmt: skip

    def filter(self) -> AclBindingFilter:
        """The ACLs that are asked for."""
        return _filter_of(self)


@api_message
class CreateAclsResponse(ApiResponse):
    @api_message
    class AclCreationResult:
        error: PylogError | None = None

    throttle_time_ms: int = 0
    results: list[AclCreationResult] = field(default_factory=list)


@api_message
class CreateAclsRequest(ApiRequest[CreateAclsResponse]):
    @api_message
    class AclCreation:
        """An ACL to make."""

        resource_type: int
        resource_name: str
        resource_pattern_type: int = LITERAL
        principal: str
        host: str
        operation: int
        permission_type: int

    creations: list[AclCreation] = field(default_factory=list)

    @classmethod
    def of(cls, acls: Iterable[AclBinding]) -> "CreateAclsRequest":
        """The request to make these ACLs."""
        creations = [
            cls.AclCreation(
                resource_type=acl.resource_type, resource_name=acl.name, resource_pattern_type=acl.pattern_type,
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type,
            )
            for acl in acls
        ]  # fmt: skip
        return cls(creations=creations)

    def bindings(self) -> list[AclBinding]:
        """The ACLs to make."""
        return [
            _binding(one.resource_type, one.resource_name, one.resource_pattern_type, one) for one in self.creations
        ]

    def refused(self, error: PylogError) -> CreateAclsResponse:
        result = CreateAclsResponse.AclCreationResult
        return CreateAclsResponse(results=[result(error=error) for _ in self.creations])


@api_message
class DeleteAclsResponse(ApiResponse):
    @api_message
    class DeleteAclsFilterResult:
        """The ACLs that a filter has found."""

        @api_message
        class DeleteAclsMatchingAcl:
            error: PylogError | None = None
            resource_type: int
            resource_name: str
            pattern_type: int = LITERAL
            principal: str
            host: str
            operation: int
            permission_type: int

        error: PylogError | None = None
        matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)

        @classmethod
        def of(cls, acls: Iterable[AclBinding]) -> "DeleteAclsResponse.DeleteAclsFilterResult":
            """The part with these ACLs."""
            matching = [
                cls.DeleteAclsMatchingAcl(
                    resource_type=acl.resource_type, resource_name=acl.name, pattern_type=acl.pattern_type,
                    principal=acl.principal, host=acl.host, operation=acl.operation,
                    permission_type=acl.permission_type,
                )
                for acl in acls
            ]  # fmt: skip
            return cls(matching_acls=matching)

        def bindings(self) -> list[AclBinding]:
            """The ACLs that are deleted."""
            return [
                _binding(one.resource_type, one.resource_name, one.pattern_type, one)
                for one in self.matching_acls
                if one.error is None
            ]

    throttle_time_ms: int = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)


@api_message
class DeleteAclsRequest(ApiRequest[DeleteAclsResponse]):
    @api_message
    class DeleteAclsFilter:
        """The ACLs to delete."""

        resource_type_filter: int
        resource_name_filter: str | None
        pattern_type_filter: int = LITERAL
        principal_filter: str | None
        host_filter: str | None
        operation: int
        permission_type: int

        def filter(self) -> AclBindingFilter:
            """The ACLs that are meant."""
            return _filter_of(self)

    filters: list[DeleteAclsFilter] = field(default_factory=list)

    @classmethod
    def of(cls, wanted: Iterable[AclBindingFilter]) -> "DeleteAclsRequest":
        """The request to delete the ACLs of these filters."""
        filters = [
            cls.DeleteAclsFilter(
                resource_type_filter=one.resource_type, resource_name_filter=one.name,
                pattern_type_filter=one.pattern_type, principal_filter=one.principal, host_filter=one.host,
                operation=one.operation, permission_type=one.permission_type,
            )
            for one in wanted
        ]  # fmt: skip
        return cls(filters=filters)

    def refused(self, error: PylogError) -> DeleteAclsResponse:
        result = DeleteAclsResponse.DeleteAclsFilterResult
        return DeleteAclsResponse(filter_results=[result(error=error) for _ in self.filters])


def _filter_of(told: DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter) -> AclBindingFilter:
    return AclBindingFilter(
        _known(AclResourceType, told.resource_type_filter), told.resource_name_filter, told.principal_filter,
        _known(AclOperation, told.operation), _known(PatternType, told.pattern_type_filter), told.host_filter,
        _known(AclPermissionType, told.permission_type),
    )  # fmt: skip
