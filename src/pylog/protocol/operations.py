"""The operations that a client may do with a topic, a group and the cluster. Bit n is operation n (KIP-430).

There are no ACLs, so it is all that there is to do (Kafka: AclEntry.supportedOperations).
"""

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(3, 9)
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(9, 13)


UNTOLD = -(1 << 31)
"""In place of the operations, where a request does not ask for them."""


def _bits(*operations: int) -> int:
    return sum(1 << one for one in operations)


OF_TOPIC = _bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
OF_GROUP = _bits(READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
OF_CLUSTER = _bits(
    CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
)  # fmt: skip


def of_group(*, is_asked: bool) -> int:
    """The operations with a group, where a request asks for them."""
    return OF_GROUP if is_asked else UNTOLD
