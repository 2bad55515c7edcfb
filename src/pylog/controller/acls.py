"""ACLs made and deleted. (Kafka: AclControlManager, AclApis)"""

from collections.abc import Callable
from uuid import UUID

from pylog.errors import InvalidRequest, PolicyViolation, ProtocolError
from pylog.protocol.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pylog.protocol.messages.acls import CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse
from pylog.protocol.metadata_changes import add_acl, remove_acl
from pylog.protocol.metadata_image import MetadataImage

CHANGES_MAX = 10_000
"""How many ACLs one request may make or delete."""


class AclControl:
    """Decides about ACLs."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def create(
        self, asked: CreateAclsRequest, new_id: Callable[[], UUID]
    ) -> tuple[list[bytes], CreateAclsResponse]:  # fmt: skip
        """The records that make ACLs, without those with an error, and the answer. One that is there is no error.

        Raises PolicyViolation: there are too many.
        """
        known, made = self._image().acls, dict[AclBinding, None]()
        answer = CreateAclsResponse()
        for acl in asked.bindings():
            error = _refusal(acl)
            if error is None and acl not in known:
                made[acl] = None
            answer.results.append(answer.AclCreationResult(error=error))
        _check_number(len(made))
        return [record for acl in made for record in add_acl(new_id(), acl)], answer

    def delete(self, asked: DeleteAclsRequest) -> tuple[list[bytes], DeleteAclsResponse]:
        """The records that delete the ACLs of some filters, and the answer: what each filter has found.

        Raises PolicyViolation: there are too many.
        """
        acls, gone = self._image().acls, dict[UUID, None]()
        answer = DeleteAclsResponse()
        for one in asked.filters:
            wanted = one.filter()
            error = _filter_refusal(wanted)
            if error is not None:
                answer.filter_results.append(answer.DeleteAclsFilterResult(error=error))
                continue
            found = dict(acls.matching(wanted))
            gone |= dict.fromkeys(found)
            answer.filter_results.append(answer.DeleteAclsFilterResult.of(found.values()))
        _check_number(len(gone))
        return [record for acl_id in gone for record in remove_acl(acl_id)], answer


def _check_number(count: int) -> None:
    if count > CHANGES_MAX:
        raise PolicyViolation(f"a request changes {CHANGES_MAX} ACLs at most, not {count}")


def _refusal(acl: AclBinding) -> ProtocolError | None:
    kind, name = acl.resource_type, acl.name
    if kind == AclResourceType.CLUSTER and name != CLUSTER_NAME:
        return InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        return InvalidRequest("Invalid empty resource name")
    if kind <= AclResourceType.ANY:
        return InvalidRequest(f"Invalid resourceType {kind.name}")
    if acl.pattern_type < PatternType.LITERAL:
        return InvalidRequest(f"Invalid patternType {acl.pattern_type.name}")
    if acl.operation <= AclOperation.ANY:
        return InvalidRequest(f"Invalid operation {acl.operation.name}")
    if acl.permission_type <= AclPermissionType.ANY:
        return InvalidRequest(f"Invalid permissionType {acl.permission_type.name}")
    return None if ":" in acl.principal else InvalidRequest(f"{acl.principal!r} is not a principal, as User:alice is")


def _filter_refusal(wanted: AclBindingFilter) -> ProtocolError | None:
    if wanted.resource_type == AclResourceType.UNKNOWN or wanted.pattern_type == PatternType.UNKNOWN:
        return InvalidRequest("Unknown patternFilter.")
    if wanted.operation == AclOperation.UNKNOWN or wanted.permission_type == AclPermissionType.UNKNOWN:
        return InvalidRequest("Unknown entryFilter.")
    return None
