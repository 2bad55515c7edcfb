"""`pylog quota list | set | remove`."""

import json

import pytest

import pylog
from support.command_line import Run, failed, misused, run

__all__ = ["run"]


def test_quotas_are_set_listed_and_removed(run: Run) -> None:
    with pylog.serve(":memory:") as server:
        where = ("--bootstrap", server.bootstrap_servers)
        assert "pylog quota set" in run("quota", "list", *where).err
        done = run("quota", "set", "--client-id", "reports", "consumer_byte_rate=5000000", *where)
        assert (done.code, done.out) == (0, "set consumer_byte_rate\n")
        both = ("--user", "ada", "--default-client-id")
        assert run("quota", "set", *both, "producer_byte_rate=10", "request_percentage=12.5", *where).code == 0
        assert run("quota", "set", "--default-user", "request_percentage=1", *where).code == 0
        assert sorted(line.split() for line in run("quota", "list", *where).lines[1:]) == [
            ["-", "reports", "consumer_byte_rate", "5,000,000"],
            ["<default>", "-", "request_percentage", "1"],
            ["ada", "<default>", "producer_byte_rate", "10"],
            ["ada", "<default>", "request_percentage", "12.5"],
        ]
        assert run("quota", "remove", *both, "producer_byte_rate", "request_percentage", *where).code == 0
        told = run("quota", "remove", "--default-user", "request_percentage", "--json", *where).out
        assert json.loads(told) == {"entity": {"user": None}, "removed": ["request_percentage"]}
        (left,) = run("quota", "list", "--json", *where).lines
        assert json.loads(left) == {"entity": {"client-id": "reports"}, "quotas": {"consumer_byte_rate": 5000000.0}}
        failed(run("quota", "set", "--user", "a", "what=1", *where), "Invalid configuration key what")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("producer_byte_rate=1",), "whose quota?"),
        (("--user", "a", "--default-user", "producer_byte_rate=1"), "not allowed with --user"),
        (("--user", "a", "producer_byte_rate"), "is not NAME=NUMBER"),
        (("--user", "a", "producer_byte_rate=much"), "is not NAME=NUMBER"),
    ],
)
def test_a_quota_of_nobody_or_without_a_number_is_not_set(run: Run, words: tuple[str, ...], says: str) -> None:
    misused(run("quota", "set", *words), says)
