"""Every config of a topic, and every change of a role, is in the rules of the short way, or may not matter there."""

from dataclasses import fields
from uuid import UUID

import pytest

from pylog.commitlog.plain_rules import UNTAKEN, Duty, plain_rules
from pylog.config import NodeConfig, TopicConfig
from pylog.config.options import kafka_name
from pylog.files import MemoryFiles
from pylog.kernel import PlainRules, pure
from pylog.partition import Partition
from pylog.replica import Follower, Leader
from tests.support.topic_values import BOUNDED, VALUES

NOW = 1_700_000_000_000
COMPACTION = "compaction alone goes by it, which runs in the background"
TAIL = "a limit of the active segment: the kernel asks its `Tail`, to which `Segment.takes` tells the limit"
MAY_NOT_MATTER = {
    "compression.gzip.level": "a level alone never recompresses a batch",
    "compression.lz4.level": "a level alone never recompresses a batch",
    "compression.zstd.level": "a level alone never recompresses a batch",
    "delete.retention.ms": COMPACTION,
    "file.delete.delay.ms": "the removal of files goes by it, which runs in the background",
    "index.interval.bytes": TAIL,
    "max.compaction.lag.ms": COMPACTION,
    "min.cleanable.dirty.ratio": COMPACTION,
    "min.compaction.lag.ms": COMPACTION,
    "min.insync.replicas": "the produce handler asks the leader for it, as the ISR has a say",
    "preallocate": "a segment goes by it when it begins",
    "pylog.max.record.bytes": "a bound of what is decoded, and a client's batch is decoded before the rules let it in",
    "retention.ms": "retention alone goes by it, which runs in the background",
    "segment.bytes": TAIL,
    "segment.index.bytes": TAIL,
    "segment.jitter.ms": TAIL,
    "segment.ms": TAIL,
    "unclean.leader.election.enable": "it has no effect yet",
}
DUTIES = [
    None,
    UNTAKEN,
    *(Duty(has_followers=f, syncs=s, is_internal=i) for f in (0, 1) for s in (0, 1) for i in (0, 1)),
]
BASES: list[dict[str, str]] = [{}, {"retention.bytes": "4000"}, {"pylog.full.policy": "block"}]


def rules(config: dict[str, str]) -> list[PlainRules]:
    """The rules under each duty."""
    return [plain_rules(TopicConfig.loaded(config), duty) for duty in DUTIES]


def test_the_values_are_of_all_configs_and_none_is_a_default() -> None:
    assert VALUES.keys() == {kafka_name(spec.name) for spec in fields(TopicConfig)}
    default = TopicConfig()
    assert all(TopicConfig.loaded({name: value}) != default for name, values in VALUES.items() for value in values)


@pytest.mark.parametrize("name", VALUES)
def test_a_config_changes_the_rules_or_may_not_matter(name: str) -> None:
    changes = {
        rules(base | {name: value}) != rules(base) for base in BASES for value in VALUES[name] if name not in base
    }

    assert changes == {False} if name in MAY_NOT_MATTER else True in changes


@pytest.mark.parametrize("name", sorted(VALUES.keys() - MAY_NOT_MATTER.keys()))
def test_the_default_of_a_node_is_in_the_rules_as_the_topic_s_own(name: str) -> None:
    known = NodeConfig().topic_defaults.broker_names()[name]
    for broker_name in known[:1]:
        node = NodeConfig.from_kafka({broker_name: VALUES[name][0]})
        config = TopicConfig.loaded({}, defaults=node.topic_defaults)
        assert [plain_rules(config, duty) for duty in DUTIES] == rules({name: VALUES[name][0]})


def test_what_goes_the_short_way_owes_nothing_that_blocks() -> None:
    configs = [{}, BOUNDED, *({name: value} for name, values in VALUES.items() for value in values)]
    found = [(rule, duty) for config in configs for rule, duty in zip(rules(config), DUTIES, strict=True)]
    short = [(rule, duty) for rule, duty in found if rule.is_short]

    assert short and all(not (rule.may_block or rule.makes_room) for rule, _ in short)
    assert all(rule.is_shown == (not duty.syncs and rule.is_short) for rule, duty in found if duty is not None)
    assert all(not duty.is_internal and (duty.syncs or not duty.has_followers) for _, duty in short if duty is not None)
    assert not any(rule.is_short or rule.is_shown or not rule.may_block for rule, duty in found if duty is None)
    assert all(rule.has_followers == duty.has_followers for rule, duty in found if duty is not None)


@pytest.mark.parametrize(
    ("config", "syncs", "changed"),
    [
        ({"flush.messages": "5"}, False, {"is_short", "is_shown", "may_block"}),
        ({"flush.messages": "5"}, True, set()),
        ({"flush.ms": "5"}, False, {"is_noted"}),
        ({"cleanup.policy": "compact"}, False, {"is_noted", "bytes_max"}),
        (BOUNDED, True, {"is_short", "makes_room", "may_block"}),
    ],
)
def test_what_a_config_changes(config: dict[str, str], syncs: bool, changed: set[str]) -> None:
    duty = Duty(has_followers=False, syncs=syncs)
    before, after = plain_rules(TopicConfig(), duty), plain_rules(TopicConfig.loaded(config), duty)

    names = [spec.name for spec in fields(pure.PlainRules)]
    assert {name for name in names if getattr(before, name) != getattr(after, name)} == changed


def test_a_record_of_a_coordinator_needs_no_look_as_it_has_a_key() -> None:
    config = TopicConfig.loaded({"cleanup.policy": "compact"})
    found = [plain_rules(config, Duty(has_followers=False, syncs=True, is_internal=one)) for one in (True, False)]

    assert [one.bytes_max for one in found] == [config.max_message_bytes, -1]


def test_rules_are_values_in_both_kernels() -> None:
    twins = [pure.PlainRules, PlainRules]
    made = [[twin(), twin(bytes_max=3, is_short=True, may_block=False), twin(is_noted=True)] for twin in twins]

    assert repr(made[0]) == repr(made[1])
    assert all(len({*some, *some}) == 3 and some[0] != 5 for some in made)
    assert all(twin() == twin() for twin in twins)


# --- roles -----------------------------------------------------------------------------------------------------------


def made_partition(topic: str) -> Partition:
    made = Partition(MemoryFiles(), f"{topic}-0", topic, 0, TopicConfig())
    made.create(UUID(int=7), NOW)
    return made


@pytest.fixture
def partition() -> Partition:
    return made_partition("t")


def facts(partition: Partition) -> tuple[bool, bool, bool]:
    found = partition.state.rules
    return found.is_short, found.is_shown, found.may_block


def test_each_change_of_a_role_is_in_the_rules(partition: Partition) -> None:
    assert facts(partition) == (False, False, True)
    leader = Leader(partition, epoch=None, followers=frozenset(), visible_when_durable=False, now_ms=0)
    assert facts(partition) == (False, False, True)
    leader.begin(0)
    assert facts(partition) == (True, True, False)
    leader.set_followers(frozenset(), frozenset({2}), 0)
    assert facts(partition) == (False, False, False), "what is shown without it could never be caught up with"
    leader.set_followers(frozenset(), frozenset(), 0)
    assert facts(partition) == (True, True, False)
    leader.set_followers(frozenset({2}), frozenset(), 0)
    assert facts(partition) == (False, False, False)
    leader.shrink_isr(frozenset({2}))
    assert facts(partition) == (False, False, False)
    leader.lead_on(1, frozenset(), frozenset(), 0)
    assert facts(partition) == (True, True, False)
    Follower(partition, leader=2, epoch=2)
    assert facts(partition) == (False, False, True)
    Leader(partition, epoch=3, followers=frozenset(), visible_when_durable=True, now_ms=0)
    assert facts(partition) == (True, False, False)
    Leader(partition, epoch=3, followers=frozenset({2}), visible_when_durable=True, now_ms=0)
    assert facts(partition) == (True, False, False), "followers have it while it is synced, with others"


def test_a_changed_config_is_in_the_rules_of_the_role(partition: Partition) -> None:
    Leader(partition, epoch=0, followers=frozenset(), visible_when_durable=False, now_ms=0)
    partition.reconfigure(TopicConfig.loaded({"flush.messages": "5"}))
    assert facts(partition) == (False, False, True)
    partition.reconfigure(TopicConfig())
    assert facts(partition) == (True, True, False)


def test_the_topics_of_coordinators_never_go_the_short_way() -> None:
    made = made_partition("__consumer_offsets")
    Leader(made, epoch=0, followers=frozenset(), visible_when_durable=False, now_ms=0)
    assert facts(made) == (False, False, False)
