"""The classes of requests, by the names of their API keys."""

from pylog.protocol.messages import (
    acls,
    configs,
    groups,
    offsets,
    quotas,
    records,
    share,
    share_state,
    topics,
    transactions,
    users,
)
from pylog.protocol.messages.api import ApiRequest

REQUESTS: dict[str, type[ApiRequest[object]]] = {
    kind.api_name(): kind
    for room in (acls, configs, groups, offsets, quotas, records, share, share_state, topics, transactions, users)
    for kind in vars(room).values()
    if isinstance(kind, type) and issubclass(kind, ApiRequest) and hasattr(kind, "__dataclass_fields__")
}
