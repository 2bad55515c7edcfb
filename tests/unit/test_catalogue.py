"""What a metadata log begins with; what else the catalogue does is tested through the log (test_log.py)."""

import uuid

from pylog.catalogue import Catalogue
from pylog.directories import Directories
from pylog.files import MemoryFiles
from pylog.kernel import walk
from pylog.metadata import FEATURES


def opened(files: MemoryFiles) -> Catalogue:
    return Catalogue(Directories(files, ["data"], None), lambda: 1_700_000_000_000)


def close(catalogue: Catalogue) -> None:
    assert catalogue.close()
    catalogue.directory.close(clean=True)


def add_topic(catalogue: Catalogue, name: str) -> None:
    catalogue.commit(catalogue.new_topic(name, uuid.uuid4(), {0: catalogue.directory.directory_id}, {}))


def test_a_new_log_begins_with_the_features_of_a_new_cluster() -> None:
    files = MemoryFiles()
    catalogue = opened(files)
    assert catalogue.image.features == {}
    add_topic(catalogue, "t")
    assert catalogue.image.features == FEATURES
    spans, _, _ = walk(files.read_file(f"data/__cluster_metadata-0/{0:020d}.log"))
    assert len(spans) == 2, "who leads; features, node and topic in one batch"
    close(catalogue)
    again = opened(files)
    assert again.image.features == FEATURES
    end = again.partition and again.partition.next_offset
    add_topic(again, "u")
    assert again.partition is not None
    assert again.partition.next_offset == (end or 0) + 3, "who leads, the topic and its partition: features only once"
    close(again)


def test_what_was_seen_of_the_catalogue_stays_as_it_was() -> None:
    catalogue = opened(MemoryFiles())
    before = catalogue.image
    add_topic(catalogue, "t")
    assert (dict(before.topics), sorted(catalogue.image.topics["t"].partitions)) == ({}, [0])
    close(catalogue)


def test_a_log_that_an_older_pylog_began_gets_its_features_with_the_next_change() -> None:
    files = MemoryFiles()
    older = opened(files)
    older.image.features["nothing"] = 0  # as if they were there: they are not written
    add_topic(older, "t")
    close(older)
    catalogue = opened(files)
    assert (catalogue.image.topics.keys(), catalogue.image.features) == ({"t"}, {})
    add_topic(catalogue, "u")
    assert (catalogue.image.topics.keys(), catalogue.image.features) == ({"t", "u"}, FEATURES)
    close(catalogue)
