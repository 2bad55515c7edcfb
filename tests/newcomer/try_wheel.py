"""Try an installed wheel: `make wheels` runs this in the environment of each.

The compiled kernel is there, a log takes and gives records, and the command runs.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import pylog
from pylog import kernel

assert kernel.NAME == "compiled", kernel.WHY_PURE
assert Path(sys.prefix) in Path(pylog.__file__).parents, f"{pylog.__file__} is not of this wheel"
with tempfile.TemporaryDirectory() as folder, pylog.open(folder) as log:
    log.create_topic("events")
    with log.producer(compression_type="zstd") as producer:
        for number in range(1000):
            producer.send("events", b"%d" % number)
    with log.consumer("events", auto_offset_reset="earliest") as consumer:
        values = [record.value for _, record in zip(range(1000), consumer, strict=False)]
    assert values == [b"%d" % number for number in range(1000)]
print(subprocess.run([Path(sys.prefix, "bin", "pylog"), "version"], check=True, capture_output=True, text=True).stdout)
