"""The first offsets of a stream, kept in a folder of its own: the option `stateLocation`.

Spark asks a Python source for its first offsets again after a failure in the first batch, and keeps no answer. Its own
Kafka source keeps one, in the checkpoint. A Python source does not learn where that is, so the folder is an option. A
folder inside of the checkpoint does: both are deleted together.

    <stateLocation>/first-offsets.json    {"read": "subscribe flights in /data", "offsets": {"flights": {"0": 23}}}

The file is written beside its place, and moved there whole. Folders may be paths, or URIs that pyarrow knows (hdfs, s3,
gs): only the driver's host reads and writes them.
"""

import json
from typing import Final
from uuid import uuid4

from pyarrow import fs

from pylog.spark.stream_offsets import StreamOffsets

FILE: Final = "first-offsets.json"


class FirstOffsets:
    """The file of one stream. `read` says in words what is read, so that no other stream takes it for its own."""

    def __init__(self, location: str, read: str) -> None:
        """Raises ValueError for a location that pyarrow does not know."""
        self._location = location
        self._read = read
        try:
            self._files, folder = fs.FileSystem.from_uri(location) if "://" in location else _local(location)
        except (ValueError, NotImplementedError, OSError) as error:
            raise ValueError(f"option 'stateLocation' is '{location}', which cannot be opened: {error}") from error
        self._folder = folder.rstrip("/")
        self._path = f"{self._folder}/{FILE}"

    def load(self) -> StreamOffsets | None:
        """What was kept; None where nothing was yet. Raises ValueError where the file is not of this stream."""
        if self._files.get_file_info(self._path).type == fs.FileType.NotFound:
            return None
        with self._files.open_input_stream(self._path) as file:
            text = file.read()
        try:
            kept = json.loads(text)
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
        text = json.dumps({"read": self._read, "offsets": offsets.to_json()})
        unfinished = f"{self._folder}/.{FILE}-{uuid4()}"
        self._files.create_dir(self._folder, recursive=True)
        with self._files.open_output_stream(unfinished) as file:
            file.write(text.encode())
        self._files.move(unfinished, self._path)


def _local(location: str) -> tuple[fs.FileSystem, str]:
    files, folder = fs.FileSystem.from_uri(f"file://{location}") if location.startswith("/") else (None, "")
    if files is None:
        raise ValueError("it has to be an absolute path or a URI")
    return files, folder
