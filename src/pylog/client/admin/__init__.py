"""Administration: what a client asks of a cluster and changes in it. (Kafka: Admin.)

topics         topics, configs, records, offsets, log directories
groups         groups, their members, committed offsets
transactions   transactions, producers, what hangs
"""

from pylog.client.admin.groups import GroupAdmin, GroupDescription, MemberDescription, OffsetMove, PartitionLag
from pylog.client.admin.topics import TopicAdmin
from pylog.client.admin.transactions import HangingTransaction, TransactionAdmin
from pylog.client.cluster import Cluster
from pylog.runtime.closing import Lease
from pylog.transport import Transport

__all__ = ["Admin", "GroupDescription", "HangingTransaction", "MemberDescription", "OffsetMove", "PartitionLag"]


class Admin(TopicAdmin, GroupAdmin, TransactionAdmin):
    """Administration of the nodes behind a transport. Thread-safe."""

    def __init__(self, transport: Transport, node: int, lease: Lease | None = None) -> None:
        super().__init__(Cluster(transport, node, "admin"))
        self._lease = lease
