"""Users, as bodies and as messages.

DescribeUserScramCredentials    the mechanisms of each user
AlterUserScramCredentials       passwords come salted and hashed
"""

from typing import Any

from pylog.errors import PylogError
from pylog.protocol.messages import (
    AlterUserScramCredentials,
    DescribedUser,
    DescribedUsers,
    DescribeUserScramCredentials,
    ScramDeletion,
    ScramUpsertion,
    UserScramCredentialsAltered,
)
from pylog.protocol.wire.mapping import Body, Mapping, error_code, error_message

__all__ = ["MAPPINGS"]


def _describe(body: Body, version: int) -> DescribeUserScramCredentials:
    users = body["users"]
    # Kafka takes no users as all of them, too.
    return DescribeUserScramCredentials([user["name"] for user in users] if users else None)


def _described(body: Body, answer: DescribedUsers | PylogError, version: int) -> Body:
    if isinstance(answer, PylogError):
        return {"errorCode": error_code(answer), "errorMessage": error_message(answer)}
    return {"results": [_described_user(one) for one in answer.users]}


def _described_user(user: DescribedUser) -> Body:
    infos = [{"mechanism": number, "iterations": count} for number, count in sorted(user.credentials.items())]
    return {
        "user": user.user, "errorCode": error_code(user.error), "errorMessage": error_message(user.error),
        "credentialInfos": infos,
    }  # fmt: skip


def _alter(body: Body, version: int) -> AlterUserScramCredentials:
    return AlterUserScramCredentials(
        [ScramDeletion(one["name"], one["mechanism"]) for one in body["deletions"]],
        [
            ScramUpsertion(
                one["name"], one["mechanism"], one["iterations"], bytes(one["salt"]), bytes(one["saltedPassword"])
            )
            for one in body["upsertions"]
        ],
    )


def _altered(body: Body, answer: UserScramCredentialsAltered, version: int) -> Body:
    return {
        "results": [
            {"user": user, "errorCode": error_code(error), "errorMessage": error_message(error)}
            for user, error in answer.errors.items()
        ]
    }


def _refused(message: Any, error: PylogError) -> UserScramCredentialsAltered:
    return UserScramCredentialsAltered({one.user: error for one in (*message.deletions, *message.upsertions)})


MAPPINGS = (
    Mapping(
        name="DescribeUserScramCredentials", message=_describe, response=_described,
        refusal=lambda message, error: error,
    ),
    Mapping(name="AlterUserScramCredentials", message=_alter, response=_altered, refusal=_refused),
)  # fmt: skip
