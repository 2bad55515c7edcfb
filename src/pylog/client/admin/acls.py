"""ACLs: who may do what through a server with an authorizer. (Kafka: Admin.createAcls, describeAcls, deleteAcls)"""

from collections.abc import Iterable

from pylog.client.cluster import Cluster, raise_first
from pylog.protocol.acls import AclBinding, AclBindingFilter
from pylog.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

EVERY = AclBindingFilter()


class AclAdmin:
    """The questions about ACLs, and their changes."""

    _cluster: Cluster

    def create_acls(self, acls: Iterable[AclBinding]) -> None:
        """Make ACLs. One that is there already stays as it is, and of several the others are made where one is refused.

        Raises: InvalidRequest (an ACL that means nothing), SecurityDisabled (a server without an authorizer),
        ClusterAuthorization.

        >>> admin.create_acls([AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)])
        >>> admin.describe_acls()
        [AclBinding(resource_type=<AclResourceType.TOPIC: 2>, name='orders', principal='User:alice', ...)]
        """
        raise_first([one.error for one in self._cluster.ask(CreateAclsRequest.of(acls)).results])

    def describe_acls(self, wanted: AclBindingFilter = EVERY) -> list[AclBinding]:
        """The ACLs of a filter, or all. Raises SecurityDisabled, ClusterAuthorization.

        >>> admin.create_acls([AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)])
        >>> len(admin.describe_acls(AclBindingFilter(principal="User:alice")))
        1
        """
        answer = self._cluster.ask(DescribeAclsRequest.of(wanted))
        raise_first([answer.error])
        return answer.bindings()

    def delete_acls(self, wanted: Iterable[AclBindingFilter]) -> list[AclBinding]:
        """Delete the ACLs of some filters, and give them. A filter that names nothing means all.

        Raises SecurityDisabled, ClusterAuthorization.

        >>> admin.create_acls([AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)])
        >>> [acl.name for acl in admin.delete_acls([AclBindingFilter(name="orders")])]
        ['orders']
        """
        found = self._cluster.ask(DeleteAclsRequest.of(wanted)).filter_results
        raise_first([one.error for one in found])
        return list(dict.fromkeys(acl for one in found for acl in one.bindings()))
