"""The producers of a partition: which sequence each has come to, and which transactions are open.

    state          what is known of one producer, and what an append would change (`AppendPlan`)
    verification   transactions whose coordinator is being asked whether they have this partition (KIP-890)
    producers      `Producers`: plan an append, apply it, expire, follow the watermark
    snapshot       the bytes of a .snapshot file
    snapshots      the .snapshot files of a partition's directory: take, restore, clear away

The state is the log, replayed; a snapshot is a shortcut to a part of it. (Kafka: ProducerStateManager,
ProducerAppendInfo, ProducerStateEntry, VerificationStateEntry; KIP-98, KIP-360, KIP-890.)
"""

from pylog.storage.producer_state.producers import Producers
from pylog.storage.producer_state.snapshots import (
    SNAPSHOT,
    SNAPSHOT_BYTES_MAX,
    Snapshots,
    snapshot_name,
    snapshot_offsets,
)
from pylog.storage.producer_state.state import AppendPlan, BatchMetadata, CompletedTxn, ProducerEntry
from pylog.storage.producer_state.verification import Verification

__all__ = [
    "SNAPSHOT",
    "SNAPSHOT_BYTES_MAX",
    "AppendPlan",
    "BatchMetadata",
    "CompletedTxn",
    "ProducerEntry",
    "Producers",
    "Snapshots",
    "Verification",
    "snapshot_name",
    "snapshot_offsets",
]
