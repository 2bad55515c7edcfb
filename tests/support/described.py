"""Answers to Metadata, as a node gives them that leads everything."""

from collections.abc import Iterable

from pylog.protocol.messages.topics import MetadataPartition, MetadataRequest, MetadataResponse, MetadataTopic


def described(names: Iterable[str], partitions: int, node: int) -> MetadataResponse:
    """Topics of so many partitions, which `node` leads."""
    return MetadataResponse(
        topics=[MetadataTopic(name=name, partitions=[led(n, node) for n in range(partitions)]) for name in names]
    )


def led(number: int, node: int, *, epoch: int = 0) -> MetadataPartition:
    """A partition that `node` leads as its only replica; below 0: it has no leader."""
    return MetadataPartition(
        partition_index=number, leader_id=node, leader_epoch=epoch, replica_nodes=[abs(node)],
        isr_nodes=[node] if node >= 0 else [],
    )  # fmt: skip


def names_in(request: MetadataRequest) -> list[str]:
    """The names that are asked for."""
    return [one.name or "" for one in request.topics or ()]
