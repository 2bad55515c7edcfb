"""Users and their credentials, as a client asks for them (KIP-554)."""

from pylog.errors import PylogError, ResourceNotFound, UnknownServer
from pylog.protocol.messages import (
    AlterUserScramCredentials,
    DescribedUser,
    DescribedUsers,
    DescribeUserScramCredentials,
    UserScramCredentialsAltered,
)
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.questions.question import Question, error_in

__all__ = ["QUESTIONS"]


def _describe(message: DescribeUserScramCredentials, version: int) -> Body:
    return {"users": None if message.users is None else [{"name": name} for name in message.users]}


def _described(message: DescribeUserScramCredentials, body: Body, version: int) -> DescribedUsers:
    error = error_in(body)
    if error is not None:
        raise error
    found = [
        DescribedUser(
            one["user"], error_in(one), {info["mechanism"]: info["iterations"] for info in one["credentialInfos"]}
        )
        for one in body["results"]
    ]
    if message.users is None:
        return DescribedUsers([one for one in found if not isinstance(one.error, ResourceNotFound)])
    return DescribedUsers(found)


def _alter(message: AlterUserScramCredentials, version: int) -> Body:
    return {
        "deletions": [{"name": one.user, "mechanism": one.mechanism} for one in message.deletions],
        "upsertions": [
            {
                "name": one.user, "mechanism": one.mechanism, "iterations": one.iterations, "salt": one.salt,
                "saltedPassword": one.salted_password,
            }
            for one in message.upsertions
        ],
    }  # fmt: skip


def _altered(message: AlterUserScramCredentials, body: Body, version: int) -> UserScramCredentialsAltered:
    found = {one["user"]: error_in(one) for one in body["results"]}
    silent = UnknownServer("the node has answered without a word of it")
    asked = [one.user for one in message.deletions] + [one.user for one in message.upsertions]
    errors: dict[str, PylogError | None] = {user: found.get(user, silent) for user in asked}
    return UserScramCredentialsAltered(errors)


QUESTIONS: dict[type, Question] = {
    DescribeUserScramCredentials: Question(name="DescribeUserScramCredentials", body=_describe, answer=_described),
    AlterUserScramCredentials: Question(name="AlterUserScramCredentials", body=_alter, answer=_altered),
}
