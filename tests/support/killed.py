"""A log whose process is gone, as far as the files can tell, while the test's process lives."""

import pylog


def kill(log: pylog.Log) -> None:
    """Give the directory free. Nothing is synced or written any more, and no thread goes on over closed files."""
    log.broker.housekeeping.close()
    log.broker.node.directories.release()
    log._opened.abandon()
