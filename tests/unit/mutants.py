"""Faults that no test of the default suite found once, each with the test that finds it now."""

from pylog.broker.follower_fetcher import FollowerFetcher
from pylog.cli import cutting
from pylog.commitlog.append import Appender
from pylog.commitlog.durability import Durability
from pylog.coordinator.group.offset_commit import Committing
from pylog.files import lock
from pylog.handles.following import Following
from pylog.logdirs.log_directory import LogDirectory
from pylog.storage.pending_syncs import PendingSyncs
from support.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS = {
    Mutant("a partition that has failed goes on fetching and acknowledges", FollowerFetcher, "_wanted",
           " and not follower.partition.failed", ""):
    "broker/test_follower_fetcher.py::test_a_partition_that_has_failed_is_fetched_no_more_and_acknowledges_nothing",
    Mutant("a partition that is refused is asked for again at once", FollowerFetcher, "_refused",
           "self._resting[key] = self._clock.tick_ms() + self._config.replica_fetch_backoff_ms", "pass"):
    "broker/test_follower_fetcher.py::test_a_partition_that_is_refused_rests_and_does_not_keep_the_others",
    Mutant("trouble is looked at as late as anything", Following, "_rest",
           "(rest_ms if troubled else REFRESH_MS)", "REFRESH_MS"):
    "handles/test_following.py::test_trouble_is_looked_at_after_the_back_off",
    Mutant("a sync promises what a truncation took", PendingSyncs, "promise", " and cuts == self._state.cuts", ""):
    "commitlog/test_durability.py::test_a_sync_that_a_truncation_overtakes_promises_nothing",
    Mutant("deleted records come back after a full disk and a power cut", LogDirectory, "keep_starts",
           "self._published.sync()", "pass"):
    "commitlog/test_watermarks.py::test_records_deleted_on_a_full_disk_stay_deleted_after_a_power_cut",
    Mutant("a close publishes in one slot", Durability, "finish",
           "    # Both slots, so that neither of them, damaged, shows an older end.\n    self.publish()\n", ""):
    "commitlog/test_watermarks.py::test_what_a_close_publishes_does_not_hang_on_one_slot",
    Mutant("a lock that is refused keeps its descriptor", lock, "_take",
           "os.close(descriptor)\n        raise locked_error", "raise locked_error"):
    "files/test_files.py::test_a_lock_that_is_refused_leaves_no_descriptor_open",
    Mutant("a batch that finds no room keeps its offset", Appender, "_with_room", "batch.stamp(0, epoch)", "pass"):
    "commitlog/test_bounded_queue.py::test_a_batch_that_is_refused_is_as_it_was",
    Mutant("an offset expires a moment late", Committing, "_has_expired",
           "wall_ms - start >= ", "wall_ms - start > "):
    "coordinator/test_group_offset_commits.py::test_an_offset_expires_when_its_time_is_over_and_not_before",
    Mutant("an offset with a time of its own expires a moment late", Committing, "_has_expired",
           "wall_ms >= committed", "wall_ms > committed"):
    "coordinator/test_group_offset_commits.py::test_an_offset_expires_when_its_time_is_over_and_not_before",
    Mutant("a line of the greatest length is refused at the end", cutting, "_held",
           "len(piece) > longest", "len(piece) >= longest"):
    "cli/test_cli_produce.py::test_a_line_of_the_greatest_length_is_one_record",
    Mutant("a line of the greatest length is two", cutting, "_lines",
           "readline(longest + 1)", "readline(longest)"):
    "cli/test_cli_produce.py::test_a_line_of_the_greatest_length_is_one_record",
}  # fmt: skip
"""The test of each, from this folder on."""
