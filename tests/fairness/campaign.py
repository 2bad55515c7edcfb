"""Attack a server in every way of `fairness`: what `make fair` runs.

    python -m fairness.campaign 200                     so many attacks, drawn from all
    python -m fairness.campaign 10000 --seed 7          all, in another order
    python -m fairness.campaign 99 --only Fetch         those whose name has this
    python -m fairness.campaign 50 --beside kafka       the same attacks on a real Kafka, too (`make kafka` before)

Prints a line for each: the longest waits of a victim (asking, appending) and of a control in seconds, how long the
attack took, what it sent and received, how much memory the server took at most, how many times what was sent that is,
and how much it kept. One that is beyond its bound is tried twice more; it is wrong where it is each time. Ends with 1
then. Beside a real Kafka it prints at last in which attacks pylog's victim waited longest, and what Kafka's waited.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from fairness import answers, batches, connections, requests
from fairness.attack import Attack
from fairness.trial import HEAD, Measured, Trial, trial
from support.raw_client import WireClient
from support.wire_requests import Requests

TRIES = 3
BESIDE_LINES = 20


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack a server, and see what others notice.")
    parser.add_argument("attacks", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--size", type=int, default=4 << 20, help="bytes of a request")
    parser.add_argument("--partitions", type=int, default=5000)
    parser.add_argument("--beside", choices=["kafka"])
    arguments = parser.parse_args()
    found: dict[str, list[Measured]] = {}
    for name in ["pylog", *([arguments.beside] if arguments.beside else [])]:
        with tempfile.TemporaryDirectory() as work, trial(Path(work), name) as made:
            found[name] = run(made, drawn(made, arguments, [one.name for one in found.get("pylog", ())]))
        print(f"{name}: {len(found[name])} attacks, {sum(bool(one.wrong) for one in found[name])} beyond their bounds")
    if arguments.beside:
        print(*compared(found["pylog"], found[arguments.beside]), sep="\n")
    return int(any(one.wrong for one in found["pylog"]))


def compared(ours: Iterable[Measured], theirs: Iterable[Measured]) -> list[str]:
    """The attacks on both servers in which our victim waited longest."""
    others = {one.name: one for one in theirs}
    both = sorted((one for one in ours if one.name in others), key=lambda one: -one.waits.longest)[:BESIDE_LINES]
    lines = [
        f"{one.waits.longest:8.2f} {others[one.name].waits.longest:8.2f} "
        f"{one.grown_kib >> 10:8} {others[one.name].grown_kib >> 10:8}  {one.name}"
        for one in both
    ]
    return ["wait, s     Kafka      MiB    Kafka  attack", *lines]


def drawn(made: Trial, arguments: argparse.Namespace, names: Sequence[str] = ()) -> list[Attack]:
    """The attacks of a run: in a random order, but those with large answers last, in theirs; or those of these names,
    as far as the server has what they attack.
    """
    with WireClient(made.server.bootstrap_servers) as wire:
        topic_id, served = Requests(wire).topic_id("attacked"), wire.versions
    found = [
        *requests.attacks("attacked", topic_id, served, arguments.size),
        *batches.attacks(),
        *connections.attacks(set(made.server.addresses)),
    ]
    random.Random(arguments.seed).shuffle(found)
    last = list(answers.attacks(arguments.partitions))
    if names:
        by_name = {one.name: one for one in [*found, *last]}
        return [by_name[name] for name in names if name in by_name]
    return [one for one in [*found, *last] if arguments.only in one.name][: arguments.attacks]


def run(made: Trial, attacks: Iterable[Attack]) -> list[Measured]:
    """Make the attacks; the best of the tries of each."""
    print(HEAD, flush=True)
    found = []
    for attack in attacks:
        one = made.measured(attack)
        for _ in range(TRIES - 1):
            if not one.wrong:
                break
            one = min(one, made.measured(attack), key=lambda each: (len(each.wrong), each.waits.longest))
        found.append(one)
        print(one, *(f"\n        WRONG: {what}" for what in one.wrong), sep="", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
