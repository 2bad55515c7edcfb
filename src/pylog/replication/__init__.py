"""The decisions of replication, apart from logs, disks, threads and clocks."""
