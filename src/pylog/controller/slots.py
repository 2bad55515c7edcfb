"""Numbers that no two nodes take, where each of them is its own controller: leader epochs and producer ids.

    round       1,000 slots; a take-over begins the round behind that of the last number this node has seen
    slot        the part of a round that belongs to one node, by its id
    step        one number of a slot

Two nodes may take over from one leader by hand, each without a message of the other: their numbers are of different
slots. A leader that was replaced and comes back takes the next steps of its own slot
(docs/decisions/0034-a-controller-decides.md).
"""

EPOCH_SLOTS, EPOCH_SLOT = 1000, 1000
"""Leader epochs: a round is 1,000,000, a slot is 1,000."""
ID_SLOTS, ID_SLOT = 1000, 10**9
"""Producer ids."""


def next_slot(latest: int, node: int, slots: int, slot: int) -> int:
    """The first number of a node's slot, in the round behind that of `latest`."""
    size = slots * slot
    return (latest // size + 1) * size + node % slots * slot
