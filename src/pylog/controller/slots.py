"""Numbers that no two nodes take, where each of them is its own controller: leader epochs and producer ids.

    round       the least one in which nobody has taken a number, by the facts of this node
    slot        of the node, by its id
    step        a number of the slot

Two nodes that take over from one leader by hand do not know of each other, and take numbers of different slots. A
leader that is replaced and comes back goes on in its own slot, one step at a time
(docs/decisions/0034-a-controller-decides.md).
"""

EPOCH_SLOTS, EPOCH_SLOT = 1000, 1000
"""Leader epochs: a round is 1,000,000, a slot is 1,000."""
ID_SLOTS, ID_SLOT = 1000, 10**9
"""Producer ids."""


def next_slot(latest: int, node: int, slots: int, slot: int) -> int:
    """The first number of a node's slot in the round behind the one that `latest` is in: a round is a slot a node."""
    size = slots * slot
    return (latest // size + 1) * size + node % slots * slot
