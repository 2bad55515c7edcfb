"""The leader epochs of a checkpoint, without a partition."""

from pylog.files import Files
from pylog.kernel import AppendState
from pylog.storage.leader_epochs import LeaderEpochs


def epochs_at(files: Files, path: str) -> LeaderEpochs:
    """The leader epochs of a checkpoint."""
    epochs = LeaderEpochs(files, path, AppendState())
    epochs.load()
    return epochs
