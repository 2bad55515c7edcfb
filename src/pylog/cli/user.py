"""`pylog user list | set | delete`: the users of a log, for SASL.

    pylog user set alice                       asks for the password, twice
    pylog user set alice < secret.txt          takes the first line of it

The log keeps what SCRAM needs of a password (`UserScramCredentialRecord`, Kafka's own), not the password. A server with
a SASL listener lets these users in.
"""

import argparse
import getpass
import sys

from pylog.cli.arguments import Parser, add_log, examples
from pylog.cli.opening import changing, looking
from pylog.cli.output import Column, json_line, print_line, print_table, say
from pylog.protocol.sasl.credentials import ITERATIONS_MAX, ITERATIONS_MIN

__all__ = ["add"]

PASSWORD_CHARS_MAX = 1024


def add(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Add `user` and its subcommands."""
    group = commands.add_parser(
        "user", help="list, add and delete users", description="The users of a log, for SASL/SCRAM.",
        epilog=examples((
            "pylog user set alice", "pylog user list", "pylog user delete alice",
            "pylog serve --listen SASL_PLAINTEXT://127.0.0.1:9092",
        )),
    )  # fmt: skip
    add_log(group)
    verbs = group.add_subparsers(title="commands", dest="verb", metavar="COMMAND", required=True)
    parser = _verb(verbs, "list", "all users", list_users)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser = _verb(verbs, "set", "add a user, or give it another password: asked for, or the first line of stdin", put)
    parser.add_argument("name", metavar="NAME", help="the user")
    parser.add_argument(
        "--iterations", type=int, default=ITERATIONS_MIN, metavar="N",
        help=f"how often the password is hashed, {ITERATIONS_MIN} to {ITERATIONS_MAX} (default: {ITERATIONS_MIN})",
    )  # fmt: skip
    parser = _verb(verbs, "delete", "let a user in no more", delete)
    parser.add_argument("name", metavar="NAME", help="the user")


def _verb(
    verbs: "argparse._SubParsersAction[Parser]", name: str, what: str, run: object
) -> argparse.ArgumentParser:  # fmt: skip
    parser = verbs.add_parser(name, help=what, description=f"{what.capitalize()}.")
    add_log(parser)
    parser.set_defaults(run=run, parser=parser)
    return parser


def list_users(args: argparse.Namespace) -> int:
    """Run `user list`."""
    with looking(args) as log:
        found = log.admin.users()
    if args.json:
        for name, mechanisms in found.items():
            print_line(json_line({"user": name, "mechanisms": mechanisms}))
    elif found:
        rows = [(name, ", ".join(mechanisms), str(max(mechanisms.values()))) for name, mechanisms in found.items()]
        print_table((Column("user"), Column("mechanisms"), Column("iterations", True)), rows)
    else:
        say("there are no users: `pylog user set NAME` adds one")
    return 0


def put(args: argparse.Namespace) -> int:
    """Run `user set`."""
    password = _password(args.name)
    with changing(args) as log:
        log.admin.set_password(args.name, password, iterations=args.iterations)
    say(f"{args.name} has a password")
    return 0


def delete(args: argparse.Namespace) -> int:
    """Run `user delete`."""
    with changing(args) as log:
        log.admin.delete_user(args.name)
    say(f"{args.name} is deleted")
    return 0


def _password(name: str) -> str:
    """The password from the terminal, or from stdin. Raises ValueError."""
    if not sys.stdin.isatty():
        return sys.stdin.readline(PASSWORD_CHARS_MAX).rstrip("\r\n")
    password = getpass.getpass(f"password of {name}: ")
    if getpass.getpass("once more: ") != password:
        raise ValueError("these are two passwords: nothing was changed")
    return password
