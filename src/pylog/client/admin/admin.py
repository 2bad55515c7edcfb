"""`Admin`: what a client asks of a cluster and changes in it."""

from typing import NoReturn

from pylog.client.admin.acls import AclAdmin
from pylog.client.admin.configs import ConfigAdmin
from pylog.client.admin.offsets import OffsetAdmin
from pylog.client.admin.quotas import QuotaAdmin
from pylog.client.admin.share_offsets import ShareOffsetAdmin
from pylog.client.admin.topics import TopicAdmin
from pylog.client.admin.transactions import TransactionAdmin
from pylog.client.admin.users import UserAdmin
from pylog.client.cluster import Cluster
from pylog.runtime.closing import Lease


class Admin(TopicAdmin, ConfigAdmin, OffsetAdmin, ShareOffsetAdmin, TransactionAdmin, UserAdmin, AclAdmin, QuotaAdmin):
    """Administration of the nodes behind a transport. Thread-safe.

    Calls raise NetworkError or RequestTimedOut where no node answers.

    >>> admin = log.admin
    >>> [topic.name for topic in admin.topics()]
    ['orders']
    """

    def __init__(self, cluster: Cluster, lease: Lease | None = None) -> None:
        super().__init__(cluster)
        self._lease = lease

    def __reduce__(self) -> NoReturn:
        raise TypeError("an admin belongs to its process, and is not pickled: take it there, as log.admin")

    def __repr__(self) -> str:
        return "<Admin>" if self._lease is None else f"<Admin of {self._lease.log}>"
