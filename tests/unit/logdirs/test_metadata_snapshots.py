"""Snapshots of the metadata log as files: what they say, and which of them are believed."""

from errno import ENOSPC
from uuid import UUID

import pytest

from pylog.errors import CorruptBatch, DiskFull, UnsupportedFormat
from pylog.files import MemoryFiles, join
from pylog.kernel import walk
from pylog.logdirs.metadata_snapshots import (
    BATCH_BYTES,
    SnapshotId,
    read_image,
    read_snapshot,
    remove_unfinished,
    snapshot_ids,
    write_snapshot,
)
from pylog.protocol.messages import ConfigResource, ResourceType
from pylog.protocol.metadata_changes import (
    allocate_producer_ids,
    change_quota,
    create_topic,
    image_records,
    register_node,
    remove_topic,
    set_features,
    take_leadership,
)
from pylog.protocol.metadata_image import MetadataImage, decode_record, encode_record
from tests.support.faults import FaultFiles

DIRECTORY = UUID(int=900)
FIRST, SECOND = SnapshotId(3, 10), SnapshotId(3, 25)
(QUOTA,) = change_quota((("user", None),), "producer_byte_rate", 1.0)
BROKER_CONFIG = encode_record(
    "ConfigRecord", {"resourceType": 4, "resourceName": "", "name": "min.insync.replicas", "value": "1"}
)
METRICS = encode_record(
    "ConfigRecord", {"resourceType": 16, "resourceName": "m", "name": "metrics", "value": "a"}
)  # fmt: skip
UNKNOWN = b"\x01\x7f\x00news"


def image_of(*records: bytes) -> MetadataImage:
    image = MetadataImage()
    for record in records:
        image.apply(decode_record(record))
    return image


def facts(image: MetadataImage) -> str:
    return repr({name: value for name, value in vars(image).items() if not name.startswith("_own")})


def topic(number: int) -> list[bytes]:
    return create_topic(f"t{number}", UUID(int=number), {0: [(1, DIRECTORY)]}, leader=1, config={"retention.ms": "5"})


def everything() -> MetadataImage:
    change = {"partitionId": 0, "topicId": UUID(int=1), "isr": [], "eligibleLeaderReplicas": [1], "lastKnownElr": [1]}
    return image_of(
        *set_features({"metadata.version": 30}),
        *register_node(1, incarnation=UUID(int=5), directories=[DIRECTORY]),
        encode_record("UnfenceBrokerRecord", {"id": 1, "epoch": 0}),
        BROKER_CONFIG,
        METRICS,
        *topic(1),
        *topic(2),
        *remove_topic(UUID(int=2)),
        *take_leadership(UUID(int=1), 0, 1),
        encode_record("PartitionChangeRecord", change),
        encode_record("NoOpRecord", {}),
        QUOTA,
        *allocate_producer_ids(1, 0, 3000),
        UNKNOWN,
    )


def written(*snapshots: SnapshotId, image: MetadataImage | None = None) -> MemoryFiles:
    files = MemoryFiles()
    files.make_dir("m")
    for snapshot in snapshots:
        records = image_records(image if image is not None else image_of(*topic(snapshot.end_offset)))
        write_snapshot(files, "m", snapshot, records, last_ms=7, now_ms=9)
    return files


def damage(files: MemoryFiles, snapshot: SnapshotId, position: int) -> None:
    data = bytearray(files.read_file(join("m", snapshot.name)))
    data[position] ^= 1
    files.replace_file(join("m", snapshot.name), bytes(data))


def cut(files: MemoryFiles, snapshot: SnapshotId, size: int) -> None:
    files.replace_file(join("m", snapshot.name), files.read_file(join("m", snapshot.name))[:size])


def test_a_snapshot_has_all_of_the_log() -> None:
    image = everything()
    assert facts(image_of(*image_records(image))) == facts(image)
    assert (len(image.nodes[1].records), image.others) == (2, [METRICS, UNKNOWN])
    assert image.quotas == {(("user", None),): {"producer_byte_rate": 1.0}}
    assert image.configs_of(ConfigResource(ResourceType.BROKER, "")) == {"min.insync.replicas": "1"}
    assert image.topics["t1"].partitions[0].others["lastKnownElr"] == [1]
    files = written(FIRST, image=image)
    assert facts(read_snapshot(files, "m", FIRST)) == facts(image)


def test_eligible_replicas_are_cleared_with_a_new_partition_epoch() -> None:
    image = everything()
    before = image.topics["t1"].partitions[0]
    for _ in range(2):
        image.apply(decode_record(encode_record("ClearElrRecord", {"topicName": ""})))
    after = image.topics["t1"].partitions[0]
    assert (after.partition_epoch, after.others) == (before.partition_epoch + 1, {})


def test_a_snapshot_has_kafkas_name_and_batches() -> None:
    files = written(FIRST)
    assert files.list_dir("m") == ["00000000000000000010-0000000003.checkpoint"]
    data = files.read_file(join("m", FIRST.name))
    spans, valid, _ = walk(data)
    assert valid == len(data)
    found = [(span.base_offset, span.count, span.attributes, span.leader_epoch) for span in spans]
    assert found == [(0, 1, 0x20, 3), (1, 3, 0, 3), (4, 1, 0x20, 3)]


def test_a_large_image_is_written_in_several_batches() -> None:
    topics = [encode_record("TopicRecord", {"name": f"{n:0240d}", "topicId": UUID(int=n)}) for n in range(5000)]
    image = image_of(*topics)
    files = written(FIRST, image=image)
    spans, _, _ = walk(files.read_file(join("m", FIRST.name)))
    assert len(spans) == 5
    assert max(span.size for span in spans) < 1.1 * BATCH_BYTES
    assert facts(read_snapshot(files, "m", FIRST)) == facts(image)


def test_the_newest_snapshot_is_read() -> None:
    files = written(SECOND, FIRST)
    image, position = read_image(files, "m", 0)
    assert (list(image.topics), position) == (["t25"], 25)


def test_a_snapshot_of_a_later_epoch_is_newer() -> None:
    assert snapshot_ids(written(SECOND, SnapshotId(4, 12)), "m") == [SECOND, SnapshotId(4, 12)]


@pytest.mark.parametrize("position", [30, 90, 200, -1])
def test_a_damaged_snapshot_is_passed_over_for_the_one_before(position: int) -> None:
    files = written(FIRST, SECOND)
    damage(files, SECOND, position)
    image, end = read_image(files, "m", 10)
    assert (list(image.topics), end) == (["t10"], 10)


@pytest.mark.parametrize("size", [0, 60, 90, -30, -79])
def test_a_snapshot_that_ends_early_is_refused(size: int) -> None:
    files = written(FIRST)
    cut(files, FIRST, size)
    with pytest.raises(CorruptBatch, match=r"the end of the snapshot is missing|not whole|too few"):
        read_snapshot(files, "m", FIRST)
    image, position = read_image(files, "m", 0)
    assert (facts(image), position) == (facts(MetadataImage()), 0), "the log from 0 on has it all"


def test_a_snapshot_of_a_newer_version_is_told_with_its_place() -> None:
    user = {"name": "a", "mechanism": 7, "salt": b"", "storedKey": b"", "serverKey": b"", "iterations": 1}
    files = MemoryFiles()
    files.make_dir("m")
    records = [encode_record("UserScramCredentialRecord", user)]
    write_snapshot(files, "m", FIRST, records, last_ms=0, now_ms=0)
    with pytest.raises(UnsupportedFormat, match=rf"^m/{FIRST.name}, position \d+, offset 10: .*SCRAM mechanism 7"):
        read_image(files, "m", 0)


def test_a_file_with_another_begin_or_end_is_no_snapshot() -> None:
    files = written(FIRST)
    data = files.read_file(join("m", FIRST.name))
    spans, _, _ = walk(data)
    files.replace_file(join("m", FIRST.name), bytes(8) + data[spans[1].position + 8 :])
    with pytest.raises(CorruptBatch, match="begins with its header"):
        read_snapshot(files, "m", FIRST)
    files.replace_file(join("m", FIRST.name), data + data)
    with pytest.raises(CorruptBatch, match="something follows the end"):
        read_snapshot(files, "m", FIRST)


def test_a_log_without_a_snapshot_for_its_start_is_refused_with_advice() -> None:
    files = written(FIRST, SECOND)
    for snapshot in (FIRST, SECOND):
        damage(files, snapshot, 90)
    with pytest.raises(CorruptBatch, match=r"begins at offset 10, and no whole snapshot.*from a backup") as caught:
        read_image(files, "m", 10)
    assert caught.value.path == join("m", SECOND.name)
    with pytest.raises(CorruptBatch, match="no snapshot is there"):
        read_image(files, "m", 26)


def test_a_batch_larger_than_any_writers_is_damage() -> None:
    files = written(FIRST)
    data = bytearray(files.read_file(join("m", FIRST.name)))
    data[8:12] = (1 << 30).to_bytes(4, "big")
    files.replace_file(join("m", FIRST.name), bytes(data))
    with pytest.raises(CorruptBatch, match="not whole"):
        read_snapshot(files, "m", FIRST)


def test_remains_of_a_failed_snapshot_are_removed() -> None:
    kept = written(FIRST)
    files = FaultFiles(kept, error=ENOSPC)
    files.faults.fail_at = 2
    with pytest.raises(DiskFull):
        write_snapshot(files, "m", SECOND, image_records(everything()), last_ms=7, now_ms=9)
    assert kept.list_dir("m") == [FIRST.name]
    for name in (FIRST.name + ".part", FIRST.name + ".deleted", "mine.checkpoint.part"):
        kept.replace_file(join("m", name), b"half")
    remove_unfinished(kept, "m")
    assert kept.list_dir("m") == [FIRST.name, "mine.checkpoint.part"]


def test_a_snapshot_of_an_empty_image_is_empty() -> None:
    files = written(FIRST, image=MetadataImage())
    assert facts(read_snapshot(files, "m", FIRST)) == facts(MetadataImage())
