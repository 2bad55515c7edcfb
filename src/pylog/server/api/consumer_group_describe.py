"""ConsumerGroupDescribe: groups of the consumer protocol; from version 1 on what kind each member is.

Members own topics by id. The answer has their names, too, which the node is asked for. A topic that is gone is left
out.
"""

from pylog.errors import PylogError
from pylog.protocol.messages import DescribedGroup, DescribedGroups, DescribeGroups
from pylog.protocol.wire.group_admin import allowed, described_consumer_groups
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Outcome, Reply, Request, api
from pylog.server.served_node import ServedNode


def answer(request: Request, node: ServedNode) -> Outcome:
    """Describe the groups."""
    group_ids, version = list(request.body["groupIds"]), request.version

    def response(given: DescribedGroups) -> Body:
        members = [member for group in given.groups for member in group.members]
        ids = {topic_id for member in members for topic_id, _ in (*member.owned, *member.target)}
        described = described_consumer_groups(given, node.names(ids, request.session), version)
        if request.body["includeAuthorizedOperations"]:
            described["groups"] = allowed(described["groups"])
        return described

    def refused(error: PylogError) -> Body:
        groups = [DescribedGroup(group_id, error) for group_id in group_ids]
        return described_consumer_groups(DescribedGroups(groups), {}, version)

    try:
        return Reply(node.handle(DescribeGroups(group_ids), request.session), response, refused)
    except PylogError as error:
        return refused(error)


API = api("ConsumerGroupDescribe", answer, may_wait=True)
