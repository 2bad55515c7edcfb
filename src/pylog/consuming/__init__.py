"""What a consumer is made of. `pylog.consumer` has its public face, and the order of things in a poll.

alone          one thread at a time
choosing       what is read, and
positions      where that is: the rest of the public class
calls          messages under way, and the one place to wait for their answers
subscription   the partitions and their states
fetching       records that lie ahead
offsets        where to begin: committed offsets, ends, times
skipping       where to go on behind what cannot be read
committing     positions that the group keeps
membership     a member of a group, as a machine (classic protocol)
member         what carries it out
"""

from pylog.consuming.subscription import RebalanceListener

__all__ = ["RebalanceListener"]
