"""What a server knows of its users, and what it tells nobody: which there are, and their passwords."""

import base64
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

import pylog
from pylog.errors import InvalidConfig, SaslAuthentication
from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism
from pylog.protocol.sasl.hashing import credential_of_password
from pylog.protocol.sasl.scram import ScramServer
from pylog.serde import HttpRegistry
from pylog.server.security import LogUsers, Security
from pylog.server.users import ServedUsers


def users_of(log_users: dict[tuple[str, ScramMechanism], ScramCredential], secret: bytes = b"secret") -> ServedUsers:
    return ServedUsers({"alice": "hush"}, LogUsers(lambda: log_users, secret), ["SCRAM-SHA-256", "PLAIN"])


def calls_of(server: ScramServer, message: bytes) -> int:
    """The number of calls, of C too, by which a server answers a message."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        with suppress(SaslAuthentication):
            server.step(message)
    finally:
        sys.setprofile(None)
    return count


def test_the_first_message_costs_the_same_whether_there_is_such_a_user() -> None:
    one = ScramMechanism.SHA_256
    bob = credential_of_password(one, "hush", salt=b"0123456789abcdefghijklmnop", iterations=8192)
    users = users_of({("bob", one): bob})
    users.credential(one, "anybody")  # the log's users are looked through when they have changed
    servers = {name: ScramServer(one, partial(users.credential, one), "x") for name in ("alice", "bob", "carl", "dora")}
    firsts = {name: calls_of(server, f"n,,n={name},r=abc".encode()) for name, server in servers.items()}
    wrong = b"c=biws,r=abcx,p=" + base64.b64encode(bytes(32))
    finals = {name: calls_of(server, wrong) for name, server in servers.items()}
    assert len(set(firsts.values())) == len(set(finals.values())) == 1, (firsts, finals)


def test_what_a_user_is_asked_is_the_same_in_each_run() -> None:
    one = ScramMechanism.SHA_256
    bob = credential_of_password(one, "hush", salt=b"0123456789abcdefghijklmnop", iterations=8192)
    for name in ("alice", "bob", "carl"):
        first, again = (users_of({("bob", one): bob}).credential(one, name) for _ in range(2))
        assert first == again
        assert (len(first.salt), first.iterations) in ((16, 4096), (26, 8192))
    assert users_of({}).credential(one, "carl").iterations == 4096
    assert users_of({}, b"another").credential(one, "alice").salt != users_of({}).credential(one, "alice").salt


@pytest.mark.parametrize("given", [b"hush-hush", ["hush-hush"], 31337, {"hush-hush": 1}])
def test_no_error_repeats_a_password(given: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: pylog.connect("127.0.0.1:1", sasl_password=given),
        lambda: pylog.connect("127.0.0.1:1", config={"ssl.key.password": given}),
        lambda: Security.of({"users": {"alice": given}}),
        lambda: Security.of({"ssl_key_password": given}),
        lambda: HttpRegistry("http://127.0.0.1:1", username="alice", password=given),
    ]
    with pylog.open(":memory:") as log:
        calls.append(lambda: log.admin.set_password("alice", given))
        for call in calls:
            with pytest.raises((TypeError, InvalidConfig)) as raised:
                call()
            assert "hush" not in str(raised.value) and "31337" not in str(raised.value)
