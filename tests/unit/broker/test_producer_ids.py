"""Blocks of producer ids, where the disk is full."""

import errno

import pytest

from pylog.broker.replica_manager import ReplicaManager
from pylog.config import NodeConfig
from pylog.errors import DiskFull
from pylog.files import MemoryFiles
from pylog.protocol.messages import NewTopic
from pylog.testing import SimClock
from tests.support.faults import FaultFiles


def test_ids_go_on_where_a_take_over_could_not_be_written() -> None:
    files = FaultFiles(MemoryFiles(), error=errno.ENOSPC, once=False)
    node = ReplicaManager(files, ["log"], NodeConfig(), SimClock(), node_id=1, visible_when_durable=True)
    node.changes.create_topic(NewTopic("t"))
    given = node.cluster_changes.allocate_producer_ids()
    files.faults.fail_at = len(files.sites) + 1
    with pytest.raises(DiskFull):
        node.cluster_changes.take_over_producer_ids(5)
    files.heal()
    assert node.cluster_changes.producer_ids_from <= given.start
    assert node.cluster_changes.allocate_producer_ids().start == given.stop
    node.cluster_changes.take_over_producer_ids(5)
    assert node.cluster_changes.producer_ids_from == node.image.next_producer_id
    node.close()
