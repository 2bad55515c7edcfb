"""A consumer. Its public face is `consumer.py`; `poll_loop.py` shows the order of things in a poll.

client             the part that outlives a handle: the parts, and the calls in rounds
poll_loop          what a poll does, round and round
single_thread      one thread at a time
assignment         which partitions are read, as the topics change
subscription       the partitions, and how far each is
loop_records       what a loop over the consumer has not come to yet
positions          where the consumer is, and where the ends are
pending_requests   messages in flight, and the one place to wait for their answers
leader_lookup      requests about partitions: which node gets them, and what its answers mean
fetcher            records that lie ahead
offsets            where to begin: committed offsets, ends, times
skip               where to go on behind what cannot be read
commit             positions that the group keeps
membership         a member of a group, as a machine: membership_classic, membership_consumer
group_member       what carries the machine out
"""

from pylog.client.consumer.subscription import RebalanceListener

__all__ = ["RebalanceListener"]
