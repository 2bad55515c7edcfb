"""`pylog user list | set | delete`: the users of a log, for SASL.

    pylog user set alice                       asks for the password, twice
    pylog user set alice < secret.txt          takes the first line of it

The log keeps what SCRAM needs of a password (`UserScramCredentialRecord`, Kafka's own), not the password. A server with
a SASL listener lets these users in.
"""

import getpass
import sys

from pylog.cli import completion as complete
from pylog.cli.commands import CommandGroup
from pylog.cli.opening import changing, looking
from pylog.cli.output import Column, is_terminal, print_line, print_table, say, tell
from pylog.cli.params import argument, json_option, option
from pylog.cli.place import LogPlace
from pylog.protocol.sasl.credentials import ITERATIONS_MAX, ITERATIONS_MIN
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import printable

__all__ = ["command"]

PASSWORD_CHARS_MAX = 1024


command = CommandGroup(
    "user",
    short_help="list, add and delete users",
    help="The users of a log, for SASL/SCRAM.",
    examples=(
        "pylog user set alice", "pylog user list", "pylog user delete alice",
        "pylog serve --listen SASL_PLAINTEXT://127.0.0.1:9092",
    ),
)  # fmt: skip


@command.verb("list", short_help="all users")
@json_option
def list_users(place: LogPlace, as_json: bool) -> int:
    """All users."""
    with looking(place) as log:
        found = log.admin.users()
    if as_json:
        for name, mechanisms in found.items():
            print_line(json_line({"user": name, "mechanisms": mechanisms}))
    elif found:
        rows = [(name, ", ".join(mechanisms), str(max(mechanisms.values()))) for name, mechanisms in found.items()]
        print_table((Column("user"), Column("mechanisms"), Column("iterations", True)), rows)
    else:
        say("there are no users: `pylog user set NAME` adds one")
    return 0


@command.verb("set", short_help="add a user, or give it another password")
@argument("name", "NAME", "the user")
@option(
    "--iterations", type=int, default=ITERATIONS_MIN, metavar="N",
    help=f"how often the password is hashed, {ITERATIONS_MIN} to {ITERATIONS_MAX} (default: {ITERATIONS_MIN})",
)  # fmt: skip
@json_option
def put(place: LogPlace, name: str, iterations: int, as_json: bool) -> int:
    """Add a user, or give it another password: asked for, or the first line of stdin."""
    password = _password(name)
    with changing(place) as log:
        log.admin.set_password(name, password, iterations=iterations)
    tell(as_json, {"user": name, "iterations": iterations}, f"{name} has a password")
    return 0


@command.verb("delete", short_help="let a user in no more")
@argument("name", "NAME", "the user", shell_complete=complete.users)
@json_option
def delete(place: LogPlace, name: str, as_json: bool) -> int:
    """Let a user in no more."""
    with changing(place) as log:
        log.admin.delete_user(name)
    tell(as_json, {"user": name, "deleted": True}, f"{name} is deleted")
    return 0


def _password(name: str) -> str:
    """The password from the terminal, or from stdin. Raises ValueError."""
    if sys.stdin is None:
        raise ValueError("stdin is closed: give the password there")
    if not is_terminal(sys.stdin):
        return sys.stdin.readline(PASSWORD_CHARS_MAX).rstrip("\r\n")
    password = getpass.getpass(printable(f"password of {name}: "))
    if getpass.getpass("once more: ") != password:
        raise ValueError("these are two passwords: nothing was changed")
    return password
