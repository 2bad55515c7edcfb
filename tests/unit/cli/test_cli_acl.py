"""`pylog acl add | list | remove`, and `pylog serve --acls`."""

import json

import pylog
from pylog import AclBinding, AclOperation, AclPermissionType, AclResourceType, PatternType
from support.command_line import Run, run

__all__ = ["run"]


def test_acls_are_added_listed_and_removed(run: Run) -> None:
    assert run("acl", "list").code == 1, "there is no log"
    assert run("acl", "add", "alice", "read", "topic:orders").lines[1].split() == [
        "allow", "alice", "read", "topic:orders", "literal", "*",
    ]  # fmt: skip
    assert run("acl", "add", "*", "all", "group:secret-", "--prefixed", "--deny", "--host", "10.0.0.1").code == 0
    assert run("acl", "add", "Group:ops", "alter", "cluster", "--json").code == 0
    listed = [json.loads(line) for line in run("acl", "list", "--json").lines]
    assert [(one["permission"], one["user"], one["operation"], one["resource"], one["pattern"]) for one in listed] == [
        ("allow", "alice", "read", "topic:orders", "literal"),
        ("deny", "*", "all", "group:secret-", "prefixed"),
        ("allow", "Group:ops", "alter", "cluster:kafka-cluster", "literal"),
    ]
    assert len(run("acl", "list", "--user", "alice").lines) == 2
    assert "10.0.0.1" in run("acl", "list", "group:secret-7").out
    assert "there are no such ACLs" in run("acl", "list", "topic:other").err
    assert "0 ACLs removed" in run("acl", "remove", "alice", "write").err
    assert "1 ACL removed" in run("acl", "remove", "alice", "read", "topic:orders").err
    assert json.loads(run("acl", "remove", "*", "--json").lines[0])["user"] == "*"
    assert len(run("acl", "list").lines) == 2


def test_what_is_not_a_resource_is_refused(run: Run) -> None:
    for wrong in ("orders", "topics:orders", "topic:", "cluster:"):
        done = run("acl", "add", "alice", "read", wrong)
        assert (done.code, "is not a resource" in done.err) == (2, True), wrong


def test_the_acls_of_a_server_are_changed_while_it_runs(run: Run) -> None:
    config = {"super.users": "User:ANONYMOUS"}
    with pylog.serve(":memory:", config=config, authorizer="standard") as server:
        where = ("--bootstrap", server.bootstrap_servers)
        assert run("acl", "add", "alice", "idempotent-write", "cluster", *where).code == 0
        with pylog.connect(server.bootstrap_servers) as log:
            assert log.admin.describe_acls() == [
                AclBinding(
                    AclResourceType.CLUSTER, "kafka-cluster", "User:alice", AclOperation.IDEMPOTENT_WRITE,
                    PatternType.LITERAL, "*", AclPermissionType.ALLOW,
                )
            ]  # fmt: skip
