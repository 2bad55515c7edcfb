"""The options of a read, as Spark's Kafka source names them. Pure: no Spark, no disk, no network.

    values      texts read as numbers, flags and JSON; what options of a sink need, too
    selection   subscribe, subscribePattern, assign: which partitions
    limits      startingOffsets, endingTimestamp...: where a read starts and ends
    read        all options of a read: `parse` -> `ReadOptions`
    write       all options of a write: `parse_write` -> `WriteOptions`
    where       where the log is: a directory, or servers

Each refusal is a ValueError whose text names the option and the value.
"""
