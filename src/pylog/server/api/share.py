"""ShareFetch and ShareAcknowledge: records of share groups, and what became of them.

In the loop's thread where nothing has to be waited for: the share partitions are loaded, and what members say is
written without a sync. The others go to a pool.
"""

from pylog.protocol.messages.share import ShareAcknowledgeRequest, ShareFetchRequest
from pylog.server.api.call import Later, Outcome, Reply, Request, api
from pylog.server.api.plain import handed_on
from pylog.server.served_node import ServedNode


def answer(request: Request, node: ServedNode) -> Outcome:
    """Hand a request to the node, here or in the pool."""
    if isinstance(request.body, ShareFetchRequest) and node.quotas.is_active:
        # Records of share groups are not counted, as in Kafka (KafkaApis.handleFetchFromShareFetchRequest).
        request.body.max_bytes = node.quotas.bytes_at_once(request.session, request.body.max_bytes)
    request.body.may_block = False
    outcome = handed_on(request, node)
    if not isinstance(outcome, Reply) or not outcome.answer.done() or outcome.answer.exception() is not None:
        return outcome
    if outcome.answer.result() is not None:
        return outcome
    request.body.may_block = True
    return Later(lambda: handed_on(request, node))


APIS = (
    api("ShareFetch", answer, is_of_connection=True, into=ShareFetchRequest),
    api("ShareAcknowledge", answer, into=ShareAcknowledgeRequest),
)
