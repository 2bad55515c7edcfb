"""ACLs as a node keeps them: made, described and deleted; what is refused; what the metadata log has of them."""

import uuid
from pathlib import Path

import pytest

import pylog
from pylog import AclBinding, AclBindingFilter, AclOperation, AclPermissionType, AclResourceType, PatternType
from pylog.controller import acls as controlled
from pylog.controller.acls import AclControl
from pylog.errors import CorruptBatch, InvalidRequest, PolicyViolation, ReadOnly, UnsupportedFormat
from pylog.protocol.acls import Acls
from pylog.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from pylog.protocol.metadata_changes import add_acl, image_records, remove_acl
from pylog.protocol.metadata_image import MetadataImage, decode_record, encode_record

TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
READ = AclOperation.READ
ONE = AclBinding(TOPIC, "orders", "User:alice", READ)
OTHER = AclBinding(
    AclResourceType.GROUP, "team-", "User:*", AclOperation.ALL, PatternType.PREFIXED, "10.0.0.1", AclPermissionType.DENY
)
UNKNOWN = AclResourceType.UNKNOWN


def test_acls_are_made_once_described_and_deleted() -> None:
    with pylog.open(":memory:") as log:
        admin = log.admin
        admin.create_acls([ONE, OTHER, ONE])
        admin.create_acls([ONE])
        assert len(log.broker.image.acls) == 2
        assert sorted(admin.describe_acls()) == sorted([ONE, OTHER])
        assert admin.describe_acls(AclBindingFilter(name="team-7", pattern_type=PatternType.MATCH)) == [OTHER]
        twice = [AclBindingFilter(TOPIC), AclBindingFilter(TOPIC)]
        assert admin.delete_acls(twice) == [ONE]
        assert admin.delete_acls(twice) == []
        assert admin.describe_acls() == [OTHER]


@pytest.mark.parametrize(
    ("acl", "reason"),
    [
        (ONE._replace(name=""), "Invalid empty resource name"),
        (ONE._replace(resource_type=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (ONE._replace(resource_type=AclResourceType.ANY), "Invalid resourceType ANY"),
        (ONE._replace(pattern_type=PatternType.MATCH), "Invalid patternType MATCH"),
        (ONE._replace(operation=AclOperation.ANY), "Invalid operation ANY"),
        (ONE._replace(permission_type=AclPermissionType.ANY), "Invalid permissionType ANY"),
        (ONE._replace(principal="alice"), "'alice' is not a principal"),
    ],
)
def test_an_acl_that_means_nothing_is_refused_and_the_others_are_made(acl: AclBinding, reason: str) -> None:
    with pylog.open(":memory:") as log:
        with pytest.raises(InvalidRequest, match=reason):
            log.admin.create_acls([OTHER, acl, ONE])
        assert sorted(log.admin.describe_acls()) == sorted([ONE, OTHER])


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (AclBindingFilter(UNKNOWN), "Unknown patternFilter"),
        (AclBindingFilter(operation=AclOperation.UNKNOWN), "Unknown entryFilter"),
    ],
)
def test_a_filter_that_means_nothing_deletes_nothing(wanted: AclBindingFilter, reason: str) -> None:
    with pylog.open(":memory:") as log:
        log.admin.create_acls([ONE])
        with pytest.raises(InvalidRequest, match=reason):
            log.admin.delete_acls([wanted])
        assert log.admin.describe_acls() == [ONE]


def test_acls_outlive_the_process_and_a_snapshot(tmp_path: Path) -> None:
    config = {"metadata.log.max.record.bytes.between.snapshots": 1}
    with pylog.open(tmp_path / "data", config=config) as log:
        log.admin.create_acls([ONE, OTHER])
        log.admin.delete_acls([AclBindingFilter(TOPIC)])
    for _ in range(2):
        with pylog.open(tmp_path / "data", config=config) as log:
            assert log.admin.describe_acls() == [OTHER]
            log.create_topic("t", exist_ok=True)
    with pylog.open(tmp_path / "data", mode="read") as log:
        assert log.admin.describe_acls() == [OTHER]
        with pytest.raises(ReadOnly):
            log.admin.create_acls([ONE])


def test_a_request_changes_so_many_acls_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    image = MetadataImage()
    monkeypatch.setattr(controlled, "CHANGES_MAX", 1)
    control = AclControl(lambda: image)
    with pytest.raises(PolicyViolation, match="1 ACLs at most, not 2"):
        control.create(CreateAclsRequest.of([ONE, OTHER]), uuid.uuid4)
    for number, acl in enumerate((ONE, OTHER)):
        image.apply(decode_record(add_acl(uuid.UUID(int=number), acl)[0]))
    with pytest.raises(PolicyViolation):
        control.delete(DeleteAclsRequest.of([AclBindingFilter()]))


# --- records ----------------------------------------------------------------------------------------------------------


def test_the_records_of_an_image_give_its_acls_again_and_a_successor_changes_alone() -> None:
    image, ids = MetadataImage(), [uuid.UUID(int=one) for one in (1, 2)]
    for acl_id, acl in zip(ids, (ONE, OTHER), strict=True):
        image.apply(decode_record(add_acl(acl_id, acl)[0]))
    again = MetadataImage()
    for record in image_records(image):
        again.apply(decode_record(record))
    assert dict(again.acls.by_id) == {ids[0]: ONE, ids[1]: OTHER}

    later = image.successor()
    assert later.acls is image.acls
    later.apply(decode_record(remove_acl(ids[0])[0]))
    assert (list(later.acls.by_id), len(image.acls)) == ([ids[1]], 2)


def test_a_record_of_an_acl_that_makes_no_sense_is_refused() -> None:
    image = MetadataImage()
    with pytest.raises(CorruptBatch, match="no earlier record"):
        image.apply(decode_record(remove_acl(uuid.UUID(int=1))[0]))
    value = {
        "id": uuid.UUID(int=1), "resourceType": 77, "resourceName": "t", "patternType": 3, "principal": "User:a",
        "host": "*", "operation": 3, "permissionType": 3,
    }  # fmt: skip
    with pytest.raises(UnsupportedFormat, match="77"):
        image.apply(decode_record(encode_record("AccessControlEntryRecord", value)))


def test_a_number_from_the_future_stands_for_unknown() -> None:
    asked = DescribeAclsRequest.of(AclBindingFilter())
    asked.resource_type_filter = 77
    assert asked.filter().resource_type == UNKNOWN


def test_acls_of_one_pattern_come_together_and_go_one_by_one() -> None:
    ways = [AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE]
    acls = [AclBinding(TOPIC, "t", "User:alice", way) for way in ways]
    with pylog.open(":memory:") as log:
        log.admin.create_acls(acls)
        assert sorted(log.admin.describe_acls()) == sorted(acls)
        log.admin.delete_acls([AclBindingFilter(operation=AclOperation.WRITE)])
        assert sorted(log.admin.describe_acls()) == sorted([acls[0], acls[2]])


def test_an_acl_that_is_there_under_two_ids_stays_until_both_are_gone() -> None:
    acls, acl = Acls(), ONE
    acls.add(uuid.UUID(int=1), acl)
    acls.add(uuid.UUID(int=2), acl)
    acls.remove(uuid.UUID(int=1))
    assert acl in acls and len(acls) == 1
    acls.remove(uuid.UUID(int=2))
    assert acl not in acls
