"""A consumer: its public face is `consumer.py`, which also shows the order of things in a poll.

single_thread      one thread at a time
assignment         what is read
positions          where that is: the rest of the public class
pending_requests   messages under way, and the one place to wait for their answers
leader_lookup      which node to ask
subscription       the partitions and their states
fetcher            records that lie ahead
offsets            where to begin: committed offsets, ends, times
skip               where to go on behind what cannot be read
commit             positions that the group keeps
membership         a member of a group, as a machine: membership_classic, membership_consumer
group_member       what carries the machine out
"""

from pylog.client.consumer.subscription import RebalanceListener

__all__ = ["RebalanceListener"]
