"""For each config of a topic values that are not its default, by Kafka's names."""

VALUES: dict[str, tuple[str, ...]] = {
    "cleanup.policy": ("compact", "compact,delete"),
    "compression.gzip.level": ("1",),
    "compression.lz4.level": ("1",),
    "compression.type": ("uncompressed", "gzip"),
    "compression.zstd.level": ("1",),
    "delete.retention.ms": ("0", "5"),
    "file.delete.delay.ms": ("0", "5"),
    "flush.messages": ("1", "5"),
    "flush.ms": ("0", "5"),
    "index.interval.bytes": ("0", "500"),
    "max.compaction.lag.ms": ("1", "5000"),
    "max.message.bytes": ("0", "300"),
    "message.timestamp.after.max.ms": ("0", "1500"),
    "message.timestamp.before.max.ms": ("0", "1500"),
    "message.timestamp.type": ("LogAppendTime",),
    "min.cleanable.dirty.ratio": ("0", "1"),
    "min.compaction.lag.ms": ("5",),
    "min.insync.replicas": ("2",),
    "preallocate": ("true",),
    "pylog.full.policy": ("block", "raise"),
    "pylog.max.record.bytes": ("0", "50"),
    "retention.bytes": ("0", "4000"),
    "retention.ms": ("0", "5"),
    "segment.bytes": ("200", "3000"),
    "segment.index.bytes": ("4", "40"),
    "segment.jitter.ms": ("5",),
    "segment.ms": ("1", "2000"),
    "unclean.leader.election.enable": ("true",),
}
BOUNDED = {"retention.bytes": "4000", "pylog.full.policy": "raise"}
"""What takes two configs."""
