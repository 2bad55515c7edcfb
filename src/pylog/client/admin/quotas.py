"""Quotas: how much the clients of a server may send, receive and ask. (Kafka: Admin.alterClientQuotas)"""

from collections.abc import Iterable, Mapping

from pylog.client.cluster import Cluster, raise_first
from pylog.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    QuotaEntity,
    QuotaMatch,
    quota_entity,
)


class QuotaAdmin:
    """The questions about quotas, and their changes."""

    _cluster: Cluster

    def alter_client_quotas(
        self, entity: Mapping[str, str | None], quotas: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set quotas of an entity; None removes one. A client goes by the quota of the most special entity that has it:
        `{"user": "ada", "client-id": "shop"}` before `{"user": "ada"}` before `{"client-id": "shop"}`. A name that is
        None is the default, for those without a quota of their own.

        `producer_byte_rate` and `consumer_byte_rate` are bytes a second, `request_percentage` is of the time of one
        thread. All clients of an entity share them. What is over a quota is answered, and then the client is not
        listened to for a while. Clients in this process and attached ones have no quotas.

        Raises InvalidRequest, ClusterAuthorization.

        >>> admin.alter_client_quotas({"client-id": "shop"}, {"producer_byte_rate": 1_000_000})
        >>> admin.describe_client_quotas()
        {(('client-id', 'shop'),): {'producer_byte_rate': 1000000.0}}
        """
        changes = {quota_entity(entity): quotas}
        answer = self._cluster.ask(AlterClientQuotasRequest.of(changes, validate_only=validate_only))
        raise_first([one.error for one in answer.entries])

    def describe_client_quotas(
        self, entity: Mapping[str, str | None] | None = None, any_of: Iterable[str] = (), *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas of entities with these names, and any name of the types `any_of`; with `strict`, of those that
        have no other type. Without conditions: all.

        Raises InvalidRequest, ClusterAuthorization.

        >>> admin.alter_client_quotas({"user": "ada"}, {"request_percentage": 50})
        >>> admin.describe_client_quotas(any_of=["user"])
        {(('user', 'ada'),): {'request_percentage': 50.0}}
        """
        component = DescribeClientQuotasRequest.ComponentData
        components = [
            component(entity_type=kind, match_type=QuotaMatch.DEFAULT if name is None else QuotaMatch.EXACT, match=name)
            for kind, name in (entity or {}).items()
        ] + [component(entity_type=kind, match_type=QuotaMatch.SPECIFIED, match=None) for kind in any_of]
        answer = self._cluster.ask(DescribeClientQuotasRequest(components=components, strict=strict))
        raise_first([answer.error])
        return answer.quotas()
