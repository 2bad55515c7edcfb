"""The states of share partitions, which brokers ask each other for: for clients that may do ClusterAction."""

from pylog.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
)
from pylog.server.api.call import api
from pylog.server.api.plain import of_nodes

APIS = tuple(
    api(kind.api_name(), of_nodes, may_wait=True, into=kind)
    for kind in (
        InitializeShareGroupStateRequest, ReadShareGroupStateRequest, WriteShareGroupStateRequest,
        DeleteShareGroupStateRequest, ReadShareGroupStateSummaryRequest,
    )
)  # fmt: skip
