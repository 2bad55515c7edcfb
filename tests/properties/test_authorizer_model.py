"""The authorizer says what reading every ACL says, through any changes."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from pylog.authorizer.standard import StandardAuthorizer, super_users_of
from pylog.protocol.acls import AclBinding, AclOperation, AclPermissionType, Acls, PatternType
from support.acl_world import (
    ADDRESSES,
    CLIENTS,
    HOSTS,
    KINDS,
    NAMES,
    OPERATIONS,
    PRINCIPALS,
    RESOURCES,
    AclQuestion,
    World,
)

BINDINGS = st.builds(
    AclBinding, st.sampled_from(KINDS[:2]), st.sampled_from(NAMES), st.sampled_from(PRINCIPALS),
    st.sampled_from((*OPERATIONS[:6], AclOperation.ALL)),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)), st.sampled_from(HOSTS),
    st.sampled_from((AclPermissionType.DENY, AclPermissionType.ALLOW)),
)  # fmt: skip
QUESTIONS = st.builds(
    AclQuestion, st.sampled_from(CLIENTS), st.sampled_from(ADDRESSES), st.sampled_from(OPERATIONS[:8]),
    st.sampled_from(KINDS[:2]), st.sampled_from((*RESOURCES, "*x")),
)  # fmt: skip


@given(
    st.lists(BINDINGS, max_size=12, unique=True), st.lists(st.integers(0, 11)), st.lists(QUESTIONS, max_size=20),
    st.sampled_from(("", "User:root;User:bob")), st.booleans(),
)  # fmt: skip
def test_the_index_is_no_shorter_than_the_rules(
    bindings: list[AclBinding], gone: list[int], questions: list[AclQuestion], super_users: str, allows: bool
) -> None:
    now = Acls()
    judge = StandardAuthorizer(lambda: now, super_users=super_users_of(super_users), allows_without_acl=allows)
    left = dict(enumerate(bindings))
    for number, acl in left.items():
        now = now.successor()
        now.add(uuid.UUID(int=number), acl)
    for turn in (None, *gone):
        if turn in left:
            now = now.successor()
            now.remove(uuid.UUID(int=turn))
            del left[turn]
        world = World(list(left.values()), super_users, allows)
        for question in questions:
            assert question.name is not None
            assert judge.authorize(*question[:4], question.name) == world.allows(question)
