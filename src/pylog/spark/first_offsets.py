"""The first offsets of a stream, kept in a folder of its own: the option `stateLocation`.

Spark asks a Python source for its first offsets again when the first batch fails, and does not keep the answer. Spark's
Kafka source keeps it in the checkpoint. A Python source does not know where the checkpoint is, so the option names a
folder. Use a folder inside the checkpoint: both are then deleted together.

    <stateLocation>/first-offsets.json    {"read": "subscribe flights in /data", "offsets": {"flights": {"0": 23}}}

Only the driver's host reads and writes the file.
"""

import json
from typing import Final

from pylog.spark.folder import Folder
from pylog.spark.stream_offsets import StreamOffsets

FILE: Final = "first-offsets.json"


class FirstOffsets:
    """The file of one stream. `read` says in words what is read, so that no other stream takes it for its own."""

    def __init__(self, location: str, read: str) -> None:
        """`location`: an absolute path, or a URI that pyarrow knows. Raises ValueError for another one."""
        if "://" not in location and not location.startswith("/"):
            raise ValueError(f"option 'stateLocation' is '{location}': it has to be an absolute path or a URI")
        try:
            self._folder = Folder(location)
        except ValueError as error:
            raise ValueError(f"option 'stateLocation': {error}") from error
        self._read = read
        self._path = self._folder.at(FILE)

    def load(self) -> StreamOffsets | None:
        """The offsets that were kept; None where nothing was yet. Raises ValueError where the file is not of this
        stream.
        """
        if not self._folder.has(FILE):
            return None
        try:
            kept = json.loads(self._folder.read(FILE))
            read, offsets = kept["read"], StreamOffsets.from_json(kept["offsets"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{self._path} has no offsets that pylog wrote: {error}. If the stream has never finished a batch, "
                "delete the file and start it again; else put back what it was"
            ) from error
        if read != self._read:
            raise ValueError(
                f"{self._path} belongs to another read: {read}, and this one is: {self._read}. Give each stream a "
                "stateLocation of its own, and a new one together with a new checkpoint"
            )
        return offsets

    def keep(self, offsets: StreamOffsets) -> None:
        """Write the file. Raises OSError."""
        self._folder.write(FILE, json.dumps({"read": self._read, "offsets": offsets.to_json()}).encode())
