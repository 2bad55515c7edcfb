"""Play random scripts of operations on the log of one partition, by Kafka's own classes and by pylog, and compare.

    python -m differential.log_campaign 200             so many scripts
    python -m differential.log_campaign 200 --seed 7    with other dice
    python -m differential.log_campaign 1 --script 17   one script alone, as it was in the whole

After each operation the answers, the state, the names in the folder and the producer snapshots are compared. A script
that differs is made short before it is told. Ends with 1 where one differs.
"""

import argparse
import json
import logging
import re
import sys
import uuid
from collections import Counter
from typing import Any

from differential.kafka_log import KafkaLog, Op
from differential.log_scripts import Script
from oracle.scripts import Replay

OPERATIONS = 60
TOPIC_ID = uuid.UUID("11223344-5566-7788-99aa-bbccddeeff01")


def differences(header: dict[str, Any], ops: list[Op]) -> list[str]:
    """Where pylog differs from Kafka's answers."""
    kept = [op for op in ops if not op.get("broken")]
    return Replay({**header, "ops": kept, "files": None}, TOPIC_ID).run()


def shrunk(kafka: KafkaLog, header: dict[str, Any], ops: list[Op]) -> list[Op]:
    """The shortest script with a difference that is found by leaving operations out, the last ones first."""
    first = _first(header, ops)
    size = max(1, len(ops) // 2)
    while size:
        at = len(ops) - size
        while at > 0:
            left = [asked(op) for op in (*ops[:at], *ops[at + size :])]
            answered = kafka.answers(header, left) if is_possible(left) else []
            if _first(header, answered) == first:
                ops = answered
            at -= size
        size //= 2
    return ops


def is_possible(ops: list[Op]) -> bool:
    """Whether a log is opened only where it was closed, and used only where it is open. A crash makes no clean log."""
    before = ""
    for op in ops:
        name = op["op"]
        is_closed = before in ("", "close", "abandon", "tamper")
        if is_closed != (name in ("open", "tamper")) or (op.get("clean_shutdown") and before == "abandon"):
            return False
        before = "abandon" if (before, name) == ("abandon", "tamper") else name
    return True


def _first(header: dict[str, Any], ops: list[Op]) -> str:
    """The kind of the first difference: its words, without numbers."""
    found = differences(header, ops)
    return "".join(re.findall(r"[^\d]", found[0].split(": ", 1)[1]))[:60] if found else ""


def asked(op: Op) -> Op:
    """An operation without its answer."""
    answer = {"result", "error", "message", "broken", "state", "folder"}
    return {name: value for name, value in op.items() if name not in answer}


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the partition log of pylog with Kafka's.")
    parser.add_argument("scripts", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--script", type=int)
    arguments = parser.parse_args()
    logging.disable()
    counts: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    failed = 0
    numbers = range(arguments.scripts) if arguments.script is None else [arguments.script]
    with KafkaLog() as kafka:
        for number in numbers:
            script = Script(kafka, f"{arguments.seed}/{number}")
            script.draw(OPERATIONS)
            counts.update(op["op"] for op in script.ops)
            errors.update(op["error"] for op in script.ops if "error" in op)
            broken.update(op["op"] + " " + op["message"] for op in script.ops if op.get("broken"))
            if not _first(script.header, script.ops):
                continue
            failed += 1
            ops = shrunk(kafka, script.header, script.ops)
            print(f"DIFFERS script {number}: {json.dumps(script.header)}")
            for op in ops:
                print(f"    {json.dumps(op | {'records': op['records'][:130]} if 'records' in op else op)[:2500]}")
            for difference in differences(script.header, ops):
                print(f"    -> {difference}", flush=True)
    print(f"{sum(counts.values())} operations in {len(numbers)} scripts, seed {arguments.seed}: {failed} differ")
    print(f"    {dict(counts)}\n    {dict(errors)}")
    for text, times in broken.most_common():
        print(f"    Kafka's log broke {times} times: {text}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
