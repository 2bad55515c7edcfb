"""The look at whether a log lies where it was opened: once a second while anything is appended.

An owner whose directory is moved, removed, or restored from a backup goes on in files that nobody finds. A look
compares files by device and inode: those of each log directory, and the active segment of each partition that has grown
since the last look. What is not in its place is latched, as by a failed write: appends raise until the log is opened
again.

While nothing is appended there are no looks. The next append is noted (`alarm`), and a look follows at once.
"""

from pylog.broker.replica_manager import ReplicaManager
from pylog.partition import Partition

LOOK_EVERY_MS = 1000


class PlaceWatch:
    """The looks of one node, one at a time."""

    def __init__(self, node: ReplicaManager) -> None:
        self._node = node
        self._ends: dict[Partition, int] = {}

    def look(self) -> bool:
        """Latch what is not in its place; gives whether anything has grown since the last look.

        Raises: DirectoryReplaced (the first directory), StorageError (the disk does not say).
        """
        ends = {partition: partition.next_offset for partition in self._node.topics.all_partitions}
        grown = [partition for partition, end in ends.items() if self._ends.get(partition) != end]
        self._ends = ends if grown else {}
        if grown:
            self._node.check_in_place(grown)
            return True
        return False
