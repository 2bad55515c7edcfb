"""Who shares the work of a group, and how far it has come: the coordinator of one partition of `__consumer_offsets`.

coordinator   the machine itself: events in, effects out; which message goes where
classic       one group of the classic protocol, as it is asked for
rebalancing   the same from inside: its states, its rebalances, what is logged of it
joining       what the members of such a group say
roster        who the members are
checks        what members of either protocol may say at all

consumer_group    one group of the consumer protocol
heartbeating      what its members say and are told
step              what one event changes in it
classic_members   what members of the classic protocol say in such a group
migrating         how a group with members changes its protocol
targets           what the members are to have, and reconciling: how they get there
consumer_records  its records as Kafka's bytes

committing    offsets: commit, fetch, delete, expire
offsets       the offsets themselves, committed and pending
records       all of it as Kafka's bytes
kind          what offsets and administration have to know of a group of either protocol
outbox, deadlines
"""

from pylog.coordinator.group.coordinator import GroupCoordinator

__all__ = ["GroupCoordinator"]
