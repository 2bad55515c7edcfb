"""Keys of what is not there: ACLs, tokens, quotas, metrics of clients, other nodes, other levels of features.

The codes and texts are those that a Kafka 4.3.1 without an authorizer gives, where nothing else is said.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from support.wire_node import WireNode, wire_node

CLIENT = UUID(int=7)
FAILED = "The update failed for all features since the following feature had an error: Invalid update version"


@pytest.fixture
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        yield made


@pytest.mark.parametrize("version", [1, 2, 3])
def test_there_are_no_acls(node: WireNode, version: int) -> None:
    told = "No Authorizer is configured"
    acl = {"resourceType": 2, "resourceName": "t", "principal": "User:a", "host": "*", "operation": 3}

    described = node.ask("DescribeAcls", version, {"resourceTypeFilter": 1, "operation": 1, "permissionType": 1})
    assert (described["errorCode"], described["errorMessage"]) == (54, f"{told} on the broker")
    (made,) = node.ask("CreateAcls", version, {"creations": [{**acl, "permissionType": 3}]})["results"]
    assert (made["errorCode"], made["errorMessage"]) == (54, f"{told}.")
    deleted = node.ask("DeleteAcls", version, {"filters": [{"resourceTypeFilter": 2}] * 2})["filterResults"]
    assert [(one["errorCode"], one["errorMessage"]) for one in deleted] == [(54, f"{told}.")] * 2


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_client_without_a_name_gets_no_token(node: WireNode, version: int) -> None:
    made = node.ask("CreateDelegationToken", version, {"renewers": [], "maxLifetimeMs": -1})

    assert (made["errorCode"], made["principalType"], made["principalName"]) == (64, "User", "ANONYMOUS")
    assert made.get("tokenRequesterPrincipalName", "ANONYMOUS") == "ANONYMOUS"
    assert node.ask("DescribeDelegationToken", version, {"owners": None})["errorCode"] == 64
    if version < 3:
        assert node.ask("RenewDelegationToken", version, {"hmac": b"x"})["errorCode"] == 64
        assert node.ask("ExpireDelegationToken", version, {"hmac": b"x"})["errorCode"] == 64


def test_a_quota_of_what_is_not_kept_is_refused(node: WireNode) -> None:
    def entry(kind: str | None, key: str, *, remove: bool = False) -> dict[str, Any]:
        entity = [] if kind is None else [{"entityType": kind, "entityName": "a"}]
        return {"entity": entity, "ops": [{"key": key, "value": 1.0, "remove": remove}]}

    key = "controller_mutation_rate"
    entries = [entry("user", key), entry("client-id", key, remove=True), entry("what", key), entry(None, key)]
    answers = node.ask("AlterClientQuotas", 1, {"entries": entries, "validateOnly": False})["entries"]
    assert [(one["errorCode"], one["errorMessage"]) for one in answers] == [
        (42, "pylog has no quota controller_mutation_rate: nothing would hold to it"),
        (0, None),
        (42, "Unhandled client quota entity type: what"),
        (42, "Invalid empty client quota entity"),
    ]
    assert answers[0]["entity"] == [{"entityType": "user", "entityName": "a"}]

    components = [{"entityType": kind, "matchType": 1, "match": None} for kind in ("user", "what")]
    described = node.ask("DescribeClientQuotas", 1, {"components": components, "strict": True})
    assert (described["errorCode"], described["errorMessage"], described["entries"]) == (
        35, "Unsupported entity type what", None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("user", 0, "a"), ("client-id", 2, None)], 0),
        ([("user", 0, None)], 42),
        ([("user", 1, "a")], 42),
        ([("user", 3, None)], 42),
        ([("", 1, None)], 42),
        ([("user", 1, None), ("user", 2, None)], 42),
        ([("user", 1, None), ("ip", 2, None)], 42),
    ],
)
def test_a_filter_of_quotas_has_to_make_sense(
    node: WireNode, components: list[tuple[str, int, str | None]], code: int
) -> None:
    asked = [dict(zip(("entityType", "matchType", "match"), one, strict=True)) for one in components]

    described = node.ask("DescribeClientQuotas", 1, {"components": asked, "strict": True})

    assert (described["errorCode"], described["entries"]) == (code, None if code else [])


def test_a_token_is_asked_for_in_the_name_of_another_owner(node: WireNode) -> None:
    body = {"ownerPrincipalType": "User", "ownerPrincipalName": "ann", "renewers": []}

    made = node.ask("CreateDelegationToken", 3, body)

    assert (made["principalName"], made["tokenRequesterPrincipalName"]) == ("ann", "ANONYMOUS")


def test_metrics_of_clients_are_dropped(node: WireNode) -> None:
    subscription = node.ask("GetTelemetrySubscriptions", 0, {"clientInstanceId": CLIENT})
    assert (subscription["errorCode"], subscription["requestedMetrics"]) == (0, [])
    assert subscription["clientInstanceId"] == CLIENT
    assert node.ask("GetTelemetrySubscriptions", 0, {})["clientInstanceId"].int != 0

    def pushed(client: UUID, subscription_id: int, metrics: bytes = b"x") -> Any:
        body = {"clientInstanceId": client, "subscriptionId": subscription_id, "metrics": metrics}
        return node.ask("PushTelemetry", 0, body)["errorCode"]

    right = subscription["subscriptionId"]
    assert pushed(CLIENT, right) == 0
    assert pushed(CLIENT, right + 1) == 117
    assert pushed(UUID(int=0), right) == 42
    assert pushed(CLIENT, right, bytes((1 << 20) + 1)) == 118


def test_metrics_are_not_named_so_that_clients_keep_them(node: WireNode) -> None:
    named = {one["apiKey"] for one in node.ask("ApiVersions", 0, {})["apiKeys"]}

    assert not named & {71, 72}
    assert {29, 36, 38, 45, 49, 51, 57} <= named


def test_every_replica_is_here_and_stays(node: WireNode) -> None:
    node.log.create_topic("t")
    own = node.served.node_id
    given = [(0, [own]), (0, [own + 1]), (0, None), (0, []), (0, [own, own]), (9, [own])]
    parts = [{"partitionIndex": number, "replicas": replicas} for number, replicas in given]
    topics = [{"name": "t", "partitions": parts}, {"name": "absent", "partitions": parts[:1]}]

    here, absent = node.ask("AlterPartitionReassignments", 1, {"topics": topics})["responses"]
    assert [one["errorCode"] for one in here["partitions"]] == [0, 39, 85, 39, 39, 3]
    assert "no such broker is registered" in here["partitions"][1]["errorMessage"]
    assert [one["errorCode"] for one in absent["partitions"]] == [3]


@pytest.mark.parametrize(
    ("feature", "level", "kind", "reason"),
    [
        ("metadata.version", 30, 1, None),
        ("group.version", 1, 2, None),
        ("metadata.version", 99, 1, "only supports versions 30-30"),
        ("metadata.version", 29, 1, "Can't downgrade the version of this feature without setting"),
        ("metadata.version", 29, 2, "Its level here is 30, and does not change."),
        ("transaction.version", 1, 3, "Its level here is 2, and does not change."),
        ("nonsense", 1, 1, "does not support this feature."),
        ("nonsense", 0, 2, "Feature nonsense not found."),
        ("group.version", 1, 9, "The controller does not support the given upgrade type."),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_the_levels_of_features_stay(
    node: WireNode, version: int, feature: str, level: int, kind: int, reason: str | None
) -> None:
    update = {"feature": feature, "maxVersionLevel": level, "upgradeType": kind}
    answer = node.ask("UpdateFeatures", version, {"featureUpdates": [update]})

    assert answer["errorCode"] == (0 if reason is None else 95)
    if reason is not None:
        assert answer["errorMessage"].startswith(f"{FAILED} {level} for feature {feature}. ")
        assert reason in answer["errorMessage"]
    if version == 1:
        results = [{"feature": feature, "errorCode": 0, "errorMessage": "NONE"}] if reason is None else []
        assert answer["results"] == results


def test_an_old_client_says_whether_a_downgrade_is_allowed(node: WireNode) -> None:
    for allowed, reason in ((False, "Can't downgrade"), (True, "does not change")):
        update = {"feature": "metadata.version", "maxVersionLevel": 29, "allowDowngrade": allowed}
        answer = node.ask("UpdateFeatures", 0, {"featureUpdates": [update]})

        assert (answer["errorCode"], reason in answer["errorMessage"]) == (95, True)
