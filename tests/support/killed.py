"""A log whose process is gone, as far as the files can tell, while the test's process lives."""

import pylog
from pylog.attach.owned import Owned


def kill(log: pylog.Log) -> None:
    """Give the directory free. Nothing is synced or written any more, and no thread goes on over closed files."""
    log.broker.housekeeping.close()
    log.broker.node.directories.release()
    node = log._opened.node
    if isinstance(node, Owned):
        node.doorway.close()
    log._opened.abandon()
