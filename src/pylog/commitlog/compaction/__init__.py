"""Compaction: of the records with the same key only the newest stays.

A pass over a partition reads its dirty part and notes the newest offset of each key (`offset_map`), then writes all of
its sealed segments again without what is superseded (`plan`, `filter`, `rewrite`). Offsets, timestamps, producers and
transactions stay as a reader knows them; what a batch loses, it loses inside (`filter`, `transactions`).

    checkpoint                      map full, or end
    |  clean  |      dirty          |     not yet    | active |
    0 ------- first_dirty -------- end_offset ------ first_uncleanable

(Kafka: LogCleaner, Cleaner, LogCleanerManager; KIP-58, KIP-354, KIP-534.)
"""
