"""Where an append needs no decision, for the compiled kernel: see `compiled.fast_append`."""

from pylog.kernel.pure.header import BatchHeader
from pylog.kernel.pure.tail import Appended


class FastAppends:
    """A partition that takes plain batches in one step. In Python that step would be the ordinary way, so none is."""

    def fast_append(
        self, batch: BatchHeader, epoch: int, now_ms: int, visible: bool = False, at_once: bool = False
    ) -> Appended | None:
        """Append a batch of this process as the leader of `epoch`, and let everybody see it if it is to be `visible`,
        where nothing has to be decided, opened, or done besides. None where something has: then nothing was done.

        `at_once`: no Python code may run meanwhile, as a signal's handler could.

        Raises what the partition raises whose write or publishing failed.
        """
        return None

    def fast_advance(self, offset: int) -> bool | None:
        """Let everybody see what is below `offset`; gives whether that is more than before. None where something has to
        be done besides: then nothing was done.
        """
        return None
