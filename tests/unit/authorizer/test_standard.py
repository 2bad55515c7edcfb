"""The rules by which ACLs allow and deny. (Kafka: StandardAuthorizerTest)"""

import uuid
from random import Random

import pytest

from pylog.authorizer.standard import REMEMBERED_MAX, StandardAuthorizer, super_users_of
from pylog.errors import InvalidConfig
from pylog.protocol.acls import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    Acls,
    PatternType,
)
from support.acl_world import NAMES, RESOURCES, drawn_question, drawn_world

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
DENY, ALLOW = AclPermissionType.DENY, AclPermissionType.ALLOW
ALICE, BOB, HOST = "User:alice", "User:bob", "10.0.0.1"


def acl(
    kind: AclResourceType, name: str, pattern: PatternType = LITERAL, principal: str = "User:*",
    operation: AclOperation = AclOperation.ALL, host: str = "*", permission_type: AclPermissionType = ALLOW,
) -> AclBinding:  # fmt: skip
    return AclBinding(kind, name, principal, operation, pattern, host, permission_type)


def acls_of(*bindings: AclBinding) -> Acls:
    acls = Acls()
    for number, one in enumerate(bindings):
        acls.add(uuid.UUID(int=number), one)
    return acls


def judge(*bindings: AclBinding, super_users: str = "", allows: bool = False) -> StandardAuthorizer:
    acls = acls_of(*bindings)
    return StandardAuthorizer(lambda: acls, super_users=super_users_of(super_users), allows_without_acl=allows)


def test_without_an_acl_the_default_holds_for_each_resource() -> None:
    strict, open_ = judge(), judge(acl(TOPIC, "t", principal=BOB), allows=True)
    assert not strict.authorize(ALICE, HOST, READ, TOPIC, "t")
    assert open_.authorize(ALICE, HOST, READ, TOPIC, "other")
    assert not open_.authorize(ALICE, HOST, READ, TOPIC, "t")


def test_a_denial_goes_before_everything_but_a_super_user() -> None:
    acls = acl(TOPIC, "t", principal=ALICE), acl(TOPIC, "*", operation=READ, permission_type=DENY)
    asked = judge(*acls, super_users="User:bob ; User:root")
    assert not asked.authorize(ALICE, HOST, READ, TOPIC, "t")
    assert asked.authorize(ALICE, HOST, WRITE, TOPIC, "t")
    assert asked.authorize(BOB, HOST, READ, TOPIC, "t")


def test_an_operation_implies_the_description_and_its_denial_does_not() -> None:
    assert judge(acl(TOPIC, "t", operation=WRITE)).authorize(ALICE, HOST, DESCRIBE, TOPIC, "t")
    denied = judge(acl(TOPIC, "t", operation=WRITE, permission_type=DENY), acl(TOPIC, "t"))
    assert denied.authorize(ALICE, HOST, DESCRIBE, TOPIC, "t")
    assert not denied.authorize(ALICE, HOST, WRITE, TOPIC, "t")


@pytest.mark.parametrize(
    ("written", "came"),
    [("10.0.0.1", "10.0.0.1"), ("::1", "::1"), ("0:0:0:0:0:0:0:1", "::1"), ("10.0.0.1", "::ffff:10.0.0.1"),
     ("fe80:0:0:0:0:0:0:1", "fe80::1%eth0"), ("*", "a.sock")],
)  # fmt: skip
def test_a_host_is_meant_however_it_is_written(written: str, came: str) -> None:
    asked = judge(acl(TOPIC, "t", host=written))
    assert asked.authorize(ALICE, came, READ, TOPIC, "t")
    assert asked.authorize(ALICE, "10.9.9.9", READ, TOPIC, "t") == (written == "*")


def test_a_wildcard_means_a_name_that_begins_with_a_star() -> None:
    assert not judge(acl(GROUP, "*", permission_type=DENY), allows=True).authorize(
        ALICE, HOST, READ, GROUP, "*x"
    )  # fmt: skip


def test_any_resource_of_a_type_is_allowed_where_no_denial_is_as_wide() -> None:
    allowed = acl(TOPIC, "t-1", operation=WRITE, principal=ALICE)
    assert judge(allowed).authorize_any(ALICE, HOST, WRITE, TOPIC)
    assert not judge(allowed).authorize_any(BOB, HOST, WRITE, TOPIC)
    assert not judge(allowed).authorize_any(ALICE, HOST, READ, TOPIC)
    for name, pattern in (("t-", PREFIXED), ("t-1", LITERAL), ("*", LITERAL)):
        denial = acl(TOPIC, name, pattern, operation=WRITE, permission_type=DENY)
        assert not judge(allowed, denial).authorize_any(ALICE, HOST, WRITE, TOPIC)
    assert judge(super_users=ALICE).authorize_any(ALICE, HOST, WRITE, TOPIC)


def test_a_change_of_the_acls_counts_at_the_next_question() -> None:
    now = [acls_of(acl(TOPIC, "t"))]
    asked = StandardAuthorizer(lambda: now[0], super_users=(), allows_without_acl=False)
    assert asked.authorize(ALICE, HOST, READ, TOPIC, "t")
    assert asked.authorize_any(ALICE, HOST, READ, TOPIC)
    before, now[0] = now[0], now[0].successor()
    now[0].remove(uuid.UUID(int=0))
    assert not asked.authorize(ALICE, HOST, READ, TOPIC, "t")
    assert not asked.authorize_any(ALICE, HOST, READ, TOPIC)
    assert len(before) == 1


def test_a_client_that_asks_about_many_names_fills_no_memory() -> None:
    asked = judge()
    for number in range(REMEMBERED_MAX + 5):
        asked.authorize(ALICE, HOST, READ, TOPIC, str(number))
    assert len(asked._known.decisions) == 5


def test_super_users_are_principals() -> None:
    with pytest.raises(InvalidConfig, match="'alice' is not a principal"):
        super_users_of("alice")


# --- the index --------------------------------------------------------------------------------------------------------


def test_the_index_says_what_every_acl_says() -> None:
    dice = Random(5)
    for _ in range(300):
        world = drawn_world(dice)
        asked = judge(*world.acls, super_users=world.super_users, allows=world.allows_without_acl)
        for _ in range(20):
            question = drawn_question(dice, world, may_be_any=False)
            assert question.name is not None
            assert asked.authorize(*question[:4], question.name) == world.allows(question), (question, world)


def test_removed_acls_leave_nothing_behind() -> None:
    dice, acls, there = Random(7), Acls(), {}
    for number in range(400):
        if there and dice.random() < 0.5:
            gone = dice.choice(sorted(there))
            acls = acls.successor()
            acls.remove(gone)
            del there[gone]
        else:
            made = acl(TOPIC, dice.choice(NAMES), dice.choice((LITERAL, PREFIXED)), dice.choice((ALICE, BOB)))
            if made not in acls:
                acls.add(uuid.UUID(int=number), made)
                there[uuid.UUID(int=number)] = made
        fresh = acls_of(*there.values())
        for name in RESOURCES:
            assert sorted(acls.patterns(TOPIC, name)) == sorted(fresh.patterns(TOPIC, name))
    assert dict(acls.by_id) == there
    for one in list(there):
        acls.remove(one)
    assert not acls.patterns(TOPIC, "abc")
    assert acls._lengths[TOPIC] == {}


def test_a_look_up_reads_few_of_many_acls() -> None:
    acls = acls_of(*(acl(TOPIC, f"team-{n}", PREFIXED, f"User:{n}", operation=WRITE) for n in range(10_000)))
    (short, long) = sorted(acls.patterns(TOPIC, "team-4321-clicks"), key=lambda one: len(one[2]))[-2:]
    assert (short[2], long[2]) == ("team-432", "team-4321")
    assert len(acls.of(long, "User:4321")) == 1


def test_an_id_that_is_given_again_replaces_its_acl() -> None:
    acls, one = Acls(), uuid.UUID(int=1)
    acls.add(one, acl(TOPIC, "t"))
    acls.add(one, acl(GROUP, "g"))
    assert list(acls.by_id.values()) == [acl(GROUP, "g")]
    assert acl(TOPIC, "t") not in acls


# --- filters ----------------------------------------------------------------------------------------------------------

MATCH = PatternType.MATCH
EVERY = (
    acl(TOPIC, "foo"), acl(TOPIC, "*"), acl(TOPIC, "fo", PREFIXED),
    acl(GROUP, "foo", principal=ALICE, host=HOST, operation=READ, permission_type=DENY),
)  # fmt: skip


@pytest.mark.parametrize(
    ("filter_", "found"),
    [
        (AclBindingFilter(), [0, 1, 2, 3]),
        (AclBindingFilter(TOPIC), [0, 1, 2]),
        (AclBindingFilter(TOPIC, "foo", pattern_type=LITERAL), [0]),
        (AclBindingFilter(TOPIC, "foo"), [0]),
        (AclBindingFilter(TOPIC, "foo", pattern_type=PREFIXED), []),
        (AclBindingFilter(TOPIC, "foo", pattern_type=MATCH), [0, 1, 2]),
        (AclBindingFilter(TOPIC, pattern_type=MATCH), [0, 1, 2]),
        (AclBindingFilter(TOPIC, "f", pattern_type=MATCH), [1]),
        (AclBindingFilter(name="fo", pattern_type=PREFIXED), [2]),
        (AclBindingFilter(principal=ALICE), [3]),
        (AclBindingFilter(host=HOST), [3]),
        (AclBindingFilter(operation=READ), [3]),
        (AclBindingFilter(permission_type=DENY), [3]),
    ],
)
def test_a_filter_finds_what_it_names(filter_: AclBindingFilter, found: list[int]) -> None:
    acls = acls_of(*EVERY)
    assert [acl_id.int for acl_id, _ in acls.matching(filter_)] == found


def test_what_a_client_may_do_somewhere_is_decided_anew_after_a_change() -> None:
    held = [acls_of()]
    asked = StandardAuthorizer(lambda: held[0], super_users=frozenset(), allows_without_acl=False)
    assert not asked.authorize_any(ALICE, HOST, WRITE, TOPIC)
    held[0] = acls_of(acl(TOPIC, "t", operation=WRITE))
    assert asked.authorize_any(ALICE, HOST, WRITE, TOPIC)
