"""Which appends go the short way: the one place that decides it, from the config and the role of a partition.

    config of the topic ->                                  kernel           a batch as it is, shown at once
                           plain_rules -> AppendState.rules -> produce handler  short or general
    role of the node    ->                                  server           in the loop's thread or in a pool

`Appender` computes the rules again where the config or the role changes, under the partition's lock. All others look at
the value alone. A config that an append has to obey belongs here, or into the list of those that do not matter
(`tests/properties/test_plain_rules.py`).
"""

from dataclasses import dataclass

from pylog.config import TopicConfig
from pylog.kernel import PlainRules
from pylog.storage.validator import header_is_enough

NEVER = 2**63 - 1
"""The `flush.messages`, and the `flush.ms`, of a topic that does not ask for syncs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """The debts of a partition's leader for an append that follow from its role."""

    has_followers: bool
    """Whether an append is visible when others have it."""
    syncs: bool
    """Whether an append is visible when it is durable (`flush="sync"`)."""
    is_internal: bool = False
    """Whether the node alone appends: the topics of coordinators."""
    has_epoch: bool = True
    """Whether the leader has its epoch, without which it does not append."""


UNTAKEN = Duty(has_followers=False, syncs=False, has_epoch=False)
"""The duty of a partition for which this node has no role yet."""


def plain_rules(config: TopicConfig, duty: Duty | None) -> PlainRules:
    """The rules of a partition with this config. `duty` is None where this node follows another."""
    makes_room, is_internal = config.is_bounded, duty is not None and duty.is_internal
    if duty is None or not duty.has_epoch:
        blocks, is_short, is_shown = True, False, False
    else:
        blocks = makes_room or (not duty.syncs and config.flush_messages < NEVER)
        is_short = not (blocks or duty.is_internal) and (duty.syncs or not duty.has_followers)
        is_shown = is_short and not duty.syncs
    return PlainRules(
        # Coordinators give each record a key.
        bytes_max=config.max_message_bytes if header_is_enough(config, has_keys=is_internal) else -1,
        after_max_ms=config.message_timestamp_after_max_ms,
        makes_room=makes_room,
        is_led=duty is not None,
        is_short=is_short,
        has_followers=duty is not None and duty.has_followers,
        is_shown=is_shown,
        is_noted="compact" in config.cleanup_policy or config.flush_ms < NEVER,
        may_block=blocks,
    )
