"""The operations that there are with each kind of resource, and those that a client may do, as bits: bit n is
operation n (KIP-430). (Kafka: AclEntry.supportedOperations)
"""

from collections.abc import Iterable

from pylog.protocol.acls import AclOperation, AclResourceType

UNTOLD = -(1 << 31)
"""In place of the operations, where a request does not ask for them."""

_O = AclOperation
_SUPPORTED = {
    AclResourceType.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    AclResourceType.CLUSTER: (
        _O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip


def supported(kind: AclResourceType) -> tuple[AclOperation, ...]:
    """The operations with a topic, a group or the cluster."""
    return _SUPPORTED[kind]


def bits(operations: Iterable[AclOperation]) -> int:
    """Operations as an answer tells them."""
    return sum(1 << one for one in operations)


OF_TOPIC, OF_GROUP, OF_CLUSTER = (bits(operations) for operations in _SUPPORTED.values())


def of_group(*, is_asked: bool) -> int:
    """The operations with a group, where a request asks for them."""
    return OF_GROUP if is_asked else UNTOLD
