"""The names of partition folders: `<topic>-<partition>`, and what they are called while they are no live ones.

orders-0                                             a partition
orders-0.0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a-delete     on its way out
orders-0.0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a-future     on its way in, from another directory
orders-0.0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a-stray      nobody's: its topic is gone, or has another id

All of the library recognises them by the two patterns here, so every part agrees on which folders are of the log.
Other programs' folders may be called `notes-007`, or have digits of other scripts.
"""

import re
import uuid

from pylog.files import Files, join
from pylog.protocol.topic_names import METADATA_TOPIC, is_topic_name
from pylog.record import TopicPartition
from pylog.storage.segment_checksum import NO_TOPIC

NAME_BYTES_MAX = 255
"""Of a folder, on every file system that is supported."""

_FOLDER = re.compile("(.+)-(0|[1-9][0-9]{0,4})")
_SET_ASIDE = re.compile("(.+-(?:0|[1-9][0-9]{0,4}))[.][0-9a-f]{32}(-delete|-future|-stray)")


def folder_name(topic: str, partition: int) -> str:
    """The folder of a partition, `<topic>-<partition>`."""
    return f"{topic}-{partition}"


def partition_of(name: str) -> TopicPartition | None:
    """The partition whose folder is called `name`, that of the metadata log as well; None for any other name.

    `folder_name` gives the same name back. (LocalLog.parseTopicPartitionName, which takes `notes-007`, too)
    """
    found = _FOLDER.fullmatch(name)
    if found is None or not (is_topic_name(found[1]) or found[1] == METADATA_TOPIC):
        return None
    return TopicPartition(found[1], int(found[2]))


def set_aside(topic: str, partition: int, unique: uuid.UUID, suffix: str) -> str:
    """The name of a partition's folder while it is no live one: `<topic>-<partition>.<uuid>-delete`, -future or -stray.

    Of a long topic only so much is in it as a name has room for: `is_set_aside` says whose it is.
    (LocalLog.logDeleteDirName, logFutureDirName, logStrayDirName)
    """
    ending = f"-{partition}.{unique.hex}{suffix}"
    return topic[: NAME_BYTES_MAX - len(ending)] + ending


def is_set_aside(name: str, suffix: str | None = None, key: TopicPartition | None = None) -> bool:
    """Whether `name` is what `set_aside` gives, with this suffix or any, for this partition or any.

    The uuid begins at the last dot: a topic may have some of its own. (LocalLog.parseTopicPartitionName)
    """
    found = _SET_ASIDE.fullmatch(name)
    if found is None or suffix not in (None, found[2]):
        return False
    return key is None or found[1] == set_aside(*key, NO_TOPIC, found[2]).rpartition(".")[0]


def partition_folders(files: Files, path: str, *, internal: bool = False) -> list[TopicPartition]:
    """The partitions that have a folder in a log directory, sorted; the metadata log with `internal` alone."""
    found = []
    for name in files.list_dir(path):
        key = partition_of(name)
        if key is not None and (internal or key.topic != METADATA_TOPIC):
            stat = files.stat(join(path, name))
            if stat is not None and stat.is_dir:
                found.append(key)
    return sorted(found)
