"""The metadata log that a real Kafka wrote: its records decode as its dump tool says and encode to the same bytes,
and the image that replaying gives is what the broker had: its partition folders, topic ids, epochs and configs.
"""

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from pylog.kernel import walk
from pylog.protocol.batch import Batch
from pylog.protocol.metadata_image import MetadataImage, decode_record, encode_record
from pylog.protocol.topic_names import METADATA_TOPIC

pytestmark = pytest.mark.oracle

LOG_FOLDER = f"{METADATA_TOPIC}-0"


@pytest.fixture(scope="session")
def stages(fixtures: Path) -> list[Path]:
    """The stages that have a metadata log."""
    found = sorted(path.parent.parent for path in fixtures.glob(f"*/logdir/{LOG_FOLDER}"))
    if not found:
        pytest.skip(f"there is no {LOG_FOLDER} among the fixtures")
    return found


def values(stage: Path) -> Iterator[bytes]:
    for path in sorted((stage / "logdir" / LOG_FOLDER).glob("*.log")):
        data = path.read_bytes()
        spans, end, reason = walk(data)
        assert (end, reason) == (len(data), None)
        for span in spans:
            batch = Batch.parse(data, span.position)
            if not batch.is_control:
                for record in batch.records(METADATA_TOPIC, 0):
                    assert record.value is not None
                    yield bytes(record.value)


def replay(stage: Path) -> MetadataImage:
    image = MetadataImage()
    for value in values(stage):
        image.apply(decode_record(value))
    return image


def test_records_come_back_as_the_same_bytes(stages: list[Path]) -> None:
    for stage in stages:
        count = 0
        for value in values(stage):
            record = decode_record(value)
            assert record.name is not None
            assert encode_record(record.name, record.value, record.version) == value
            count += 1
        assert count


def test_records_are_those_that_the_dump_tool_prints(stages: list[Path]) -> None:
    def plain(value: object) -> object:
        if isinstance(value, UUID):
            return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
        if isinstance(value, dict):
            return {name: plain(item) for name, item in value.items()}
        return [plain(item) for item in value] if isinstance(value, list) else value

    for stage in stages:
        printed = []
        for path in sorted((stage / "dump" / LOG_FOLDER).glob("*.log.txt*")):
            text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            printed += [json.loads(line) for line in re.findall(r'payload: (\{"type".*)', text.decode())]
        ours = [decode_record(value) for value in values(stage)]
        assert len(ours) == len(printed)
        for record, line in zip(ours, printed, strict=True):
            assert record.name is not None
            assert record.name.upper() == line["type"].replace("_", "")
            assert record.version == line["version"]
            data = plain(dict(record.value))
            assert isinstance(data, dict)
            assert {name: data[name] for name in line["data"]} == line["data"]


def test_the_image_has_the_topics_and_ids_of_the_folders(stages: list[Path]) -> None:
    for stage in stages:
        image = replay(stage)
        in_image = {f"{name}-{number}" for name, topic in image.topics.items() for number in topic.partitions}
        folders = {path.parent.name: path for path in (stage / "logdir").glob("*/partition.metadata")}
        folders.pop(LOG_FOLDER, None)
        assert folders.keys() <= in_image
        for folder, path in folders.items():
            topic = image.topics[folder.rpartition("-")[0]]
            assert image._by_id.get(topic.id) is topic
            text = base64.urlsafe_b64encode(topic.id.bytes).rstrip(b"=").decode()
            assert f"topic_id: {text}" in path.read_text()


def test_the_image_has_the_configs_that_clients_saw(stages: list[Path]) -> None:
    for stage in stages:
        image = replay(stage)
        for path in (stage / "expected").glob("*.meta.json"):
            expected = json.loads(path.read_text(encoding="utf-8"))
            topic = image.topics[expected["topic"]]
            assert expected["partition"] in topic.partitions
            # The folders of a stage may have been copied out before a later change; the configs of a topic stay.
            assert {name: topic.config.get(name) for name in expected["configs"]} == expected["configs"]


def test_leader_epochs_are_never_behind_those_in_the_logs(stages: list[Path]) -> None:
    for stage in stages:
        image = replay(stage)
        for path in (stage / "logdir").glob("*/leader-epoch-checkpoint"):
            if path.parent.name == LOG_FOLDER:
                continue
            name, _, number = path.parent.name.rpartition("-")
            lines = path.read_text().split("\n")[2:]
            epochs = [int(line.split()[0]) for line in lines if line]
            state = image.topics[name].partitions[int(number)]
            assert state.leader_epoch >= max(epochs, default=0)
            assert state.partition_epoch >= state.leader_epoch


def test_the_image_knows_the_node_of_the_directory(stages: list[Path]) -> None:
    for stage in stages:
        lines = (stage / "logdir" / "meta.properties").read_text().splitlines()
        properties = dict(line.split("=", 1) for line in lines if "=" in line)
        node = replay(stage).nodes[int(properties["node.id"])]
        directory = UUID(bytes=base64.urlsafe_b64decode(properties["directory.id"] + "=="))
        assert directory in node.directories
