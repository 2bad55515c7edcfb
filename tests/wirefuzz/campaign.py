"""Decode and send as many damaged messages as one wants: what `make wire-fuzz` runs.

    python -m wirefuzz.campaign 1000000             so many decodes, and a fifth as many frames over sockets
    python -m wirefuzz.campaign 100000 --seed 7     with other dice

Prints what became of them. Ends with 1 where something should not have happened, with the bytes that did it.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from support.raw_client import WireClient
from wirefuzz import decodes
from wirefuzz.sockets import Found, Target, at_random, systematic


def main() -> int:
    parser = argparse.ArgumentParser(description="Decode and send damaged messages.")
    parser.add_argument("decodes", type=int)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    began = time.monotonic()
    counts = decodes.run(arguments.decodes, arguments.seed)
    print(f"{counts.total()} decodes, {time.monotonic() - began:.0f} s: {dict(counts)}", flush=True)
    began = time.monotonic()
    found = sent(arguments.decodes // 5, arguments.seed)
    print(
        f"{found.counts.total()} frames, {time.monotonic() - began:.0f} s: {dict(found.counts)}; the server took "
        f"{found.memory_mib} MiB at most, another client waited {found.slowest_seconds:.2f} s at most"
    )
    for failure in found.failures:
        print(f"FAILED {failure}")
    return int(bool(found.failures))


def sent(frames: int, seed: int) -> Found:
    """Send so many frames to a server: every boundary value first."""
    with tempfile.TemporaryDirectory() as work:
        target = Target(Path(work))
        try:
            with WireClient(target.server.bootstrap_servers) as wire:
                first = list(systematic(wire, "fuzzed"))
                random.Random(seed).shuffle(first)
                target.fire(iter(first[:frames]), len(first))
                target.fire(at_random(wire, "fuzzed", seed), frames - min(frames, len(first)))
            return target.result()
        finally:
            target.close()


if __name__ == "__main__":
    sys.exit(main())
