"""Ask pylog's authorizer and Kafka's own the same questions about the same ACLs, and compare the answers.

    python -m differential.acl_campaign 100000             so many questions
    python -m differential.acl_campaign 100000 --seed 7    with other dice

The program of Kafka's side is tests/conformance/java/pylog/AclJudge.java. Ends with 1 where an answer differs.
"""

import argparse
import json
import subprocess
import sys
import uuid
from random import Random

from conformance.dump_log import JAVA, QUIET
from pylog.authorizer.standard import StandardAuthorizer, super_users_of
from pylog.protocol.acls import Acls
from support.acl_world import AclQuestion, World, drawn_question, drawn_world
from support.clients.java import CLASSES

QUESTIONS = 40
"""How many questions there are about one set of ACLs."""


def answers(world: World, questions: list[AclQuestion]) -> list[bool]:
    """The answers of pylog's authorizer."""
    acls = Acls()
    for number, acl in enumerate(world.acls):
        acls.add(uuid.UUID(int=number), acl)
    judge = StandardAuthorizer(
        lambda: acls, super_users=super_users_of(world.super_users), allows_without_acl=world.allows_without_acl
    )
    return [
        judge.authorize_any(*question[:4])
        if question.name is None
        else judge.authorize(*question[:4], question.name)
        for question in questions
    ]  # fmt: skip


def told(world: World, questions: list[AclQuestion]) -> str:
    """The line for Kafka's side."""
    return json.dumps({
        "acls": world.acls, "super_users": world.super_users, "allows": str(world.allows_without_acl).lower(),
        "questions": questions,
    })  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the authorizer of pylog with Kafka's.")
    parser.add_argument("questions", type=int)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    dice = Random(arguments.seed)
    *options, _, jars = JAVA[1:]
    command = ["java", QUIET.replace("warn", "off"), *options, "-cp", f"{CLASSES}:{jars}", "pylog.AclJudge"]
    asked = failed = allowed = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as kafka:
        assert kafka.stdin is not None
        assert kafka.stdout is not None
        while asked < arguments.questions:
            world = drawn_world(dice)
            questions = [drawn_question(dice, world, may_be_any=True) for _ in range(QUESTIONS)]
            kafka.stdin.write(told(world, questions) + "\n")
            kafka.stdin.flush()
            theirs: list[bool] = json.loads(kafka.stdout.readline())
            for question, ours, kafkas in zip(questions, answers(world, questions), theirs, strict=True):
                asked += 1
                allowed += kafkas
                if ours != kafkas:
                    failed += 1
                    print(f"DIFFERS {question}: Kafka says {kafkas}\n    {world}", flush=True)
        kafka.stdin.close()
    print(f"{asked} questions, seed {arguments.seed}: {allowed} allowed, {failed} differ")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
