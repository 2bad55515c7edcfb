"""The coordinator of the groups in one partition of `__consumer_offsets`: members, assignments, committed offsets.

coordinator          the machine itself: events in, effects out; which message goes where
classic              one group of the classic protocol: its states, its rebalances, its records
classic_join         the messages of its members
members              its members
checks               the limits of members' messages, in either protocol

consumer_group       one group of the consumer protocol
consumer_heartbeat   the messages of its members, and the answers
update               the changes of one event in it
classic_members      the messages of classic members in such a group
migration            a group with members that changes its protocol
target_assignment    the assignment that members are to reach, and reconciliation: how they get there
consumer_records     its records as Kafka's bytes

share_groups         share groups: which group a message is for
share_group          one share group
share_heartbeat      the messages of its members, and the answers
share_update         the changes of one event in it
share_offsets        how far it is: describe, alter, delete
share_records        its records as Kafka's bytes
simple_assignor      the assignor of share groups

offset_commit        offsets: commit, fetch, delete, expire
committed_offsets    the offsets themselves, committed and pending
records              offsets and classic groups as Kafka's bytes
group_protocol       the interface of a group of any protocol for offsets and administration
effects_builder, timers
"""

from pylog.coordinator.group.coordinator import GroupCoordinator
from pylog.coordinator.group.group_protocol import Census

__all__ = ["Census", "GroupCoordinator"]
