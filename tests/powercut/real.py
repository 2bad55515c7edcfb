"""Real power cuts: a file system in a file, mounted by a loop device, is shut down under a writer without a flush of
its journal (EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN); what is there after the next mount is judged.

    python -m tests.powercut.real 200          so many cuts, on ext4 and XFS in turn, in all flush modes

Needs root, loop devices, mkfs.ext4 and mkfs.xfs; says so and stops with code 0 where there are none. Only what was
read from the writer before the cut counts as promised.
"""

import argparse
import fcntl
import logging
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pylog.files import DiskFiles
from pylog.files.incarnation import incarnation

from .judge import judged_files, promises

MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
MODES = ("sync", "sync", "interval", "none")
SHUTDOWN, NO_FLUSH = 0x8004587D, 2
IMAGE_BYTES = 512 << 20
IDENTITY = "log/one/meta.properties"


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    subprocess.run(["mount", "-o", "loop", image, at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", at], check=True)


def cut(image: Path, at: Path, mode: str, seed: int) -> str:
    """One cut, and what is wrong after it."""
    chance = random.Random(seed)
    notes: list[bytes] = []
    with mounted(image, at):
        root = at / "log"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        os.sync()
        command = [sys.executable, "-m", f"{__package__}.writer", str(root), mode, str(seed), "100000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            lines = process.stdout

            def read() -> None:
                # The last line may be half of one: the writer is killed.
                notes.extend(line for line in iter(lines.readline, b"") if line.endswith(b"\n"))

            reading = threading.Thread(target=read)
            reading.start()
            while not notes and process.poll() is None:
                time.sleep(0.01)
            time.sleep(chance.uniform(0.05, 2))
            descriptor = os.open(at, os.O_RDONLY)
            heard = len(notes)
            before = incarnation(str(at / IDENTITY))
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", NO_FLUSH))
            os.close(descriptor)
            process.kill()
            process.wait()
            reading.join()
    with mounted(image, at):
        if before == incarnation(str(at / IDENTITY)):
            return "the next mount is taken for the one that was cut"
        # What was tried counts up to the end, what was promised up to the cut.
        _, kept = promises(notes[:heard], mode)
        said, _ = promises(notes, mode)
        try:
            paths = [str(at / "log" / name) for name in ("one", "two")]
            return "; ".join(judged_files(DiskFiles(), paths, said, kept, mode)[:3])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is wrong
            return "".join(traceback.format_exception(error, limit=-3))


def unable(kind: str) -> str:
    """Why there can be no cuts of that kind of file system here."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        return "it takes root and loop devices"
    if shutil.which(MAKE[kind][0]) is None:
        return f"{MAKE[kind][0]} is not there"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cuts", nargs="?", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    kinds = [kind for kind in MAKE if not (why := unable(kind)) or print(f"SKIPPED real power cuts on {kind}: {why}")]
    if not kinds:
        return 0
    wrong, done = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / "mount"
        at.mkdir()
        for number, kind in enumerate(kinds):
            image = Path(folder) / kind
            with image.open("wb") as file:
                file.truncate(IMAGE_BYTES)
            subprocess.run([*MAKE[kind], image], check=True)
            for seed in range(number, given.cuts, len(kinds)):
                mode = MODES[seed // len(kinds) % len(MODES)]
                words = cut(image, at, mode, given.seed + seed)
                done, wrong = done + 1, wrong + bool(words)
                if words:
                    print(f"FAILED {kind} {mode} seed {given.seed + seed}: {words}", flush=True)
            print(f"{done} cuts, {wrong} wrong ({kind})", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
