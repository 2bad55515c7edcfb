"""Faults that are planted into the group coordinator on purpose, each of which the simulation has to find.

A mutant replaces a piece of a function's source for as long as it is tried. Numbers are those of the known bugs of
others that it stands for.

Some faults nobody can see here, for another rule makes up for them in time, and only unit tests hold them: laggards
that stay in a generation are out at its sync timeout; an id that nobody comes with delays a rebalance to its timeout at
most; a leader that did not join loses its session; and where an assignment could not be logged, members that join again
get the same generation and try again.
"""

from pylog.coordinator.group import classic_join
from pylog.coordinator.group.classic import ClassicGroup
from pylog.coordinator.group.committed_offsets import CommittedOffsets
from pylog.coordinator.group.coordinator import GroupCoordinator
from pylog.coordinator.group.members import Roster
from pylog.coordinator.group.offset_commit import Committing
from support.mutant import Mutant

MUTANTS = [
    # offsets: 73, 71, 68
    Mutant("a marker overrides what was committed after it was staged (73)", CommittedOffsets, "replay_marker",
           "before.place < placed.place", "True"),
    Mutant("an aborted transaction counts", CommittedOffsets, "replay_marker", "if not committed:", "if False:"),
    Mutant("a committed transaction does not count (68)", CommittedOffsets, "replay_marker",
           "if not committed:", "if True:"),
    Mutant("a tombstone leaves what is pending", CommittedOffsets, "_remove",
           "list(self._open.get(group_id, ()))", "()"),
    Mutant("an offset of an open transaction expires (73)", Committing, "_has_expired",
           " or self._offsets.is_pending(group.group_id, at)", ""),
    Mutant("what members read expires (71)", ClassicGroup, "is_subscribed",
           "return self.uses_consumer_protocol if self.subscribed is None else topic in self.subscribed",
           "return False"),
    Mutant("staged offsets count at once", GroupCoordinator, "_replay_offset",
           "None if stamp is None else stamp.producer_id", "None"),
    Mutant("an old generation commits (72)", ClassicGroup, "check_commit", "self.check_generation(generation)", "pass"),
    Mutant("a fetch shows what is not safe", Committing, "_current", "self._offsets.safe(", "self._offsets.get("),
    Mutant("what was committed is told late", CommittedOffsets, "note_safe", "<= upto", "< upto"),
    Mutant("a commit is acknowledged before it is safe", Committing, "_write",
           "out.write(records, [Answer(ticket, message.results(errors))], failed, stamp, changes)",
           "out.write(records, (), None, stamp); out.answer(ticket, message.results(errors))"),
    Mutant("who commits is not told that it failed", Committing, "_write",
           "failed, stamp, changes)", "None, stamp, changes)"),
    # generations and assignments: 72
    Mutant("a generation has the number of the one before (72)", ClassicGroup, "complete_join",
           "self.generation = self.generation % INT_MAX + 1", "self.generation = max(self.generation, 1)"),
    Mutant("assignments are given before they are safe (72)", ClassicGroup, "assign",
           "self.store(out, assignments, answers, failed)",
           "self.store(out, assignments, [], failed); [out.answer(a.ticket, a.message) for a in answers]"),
    Mutant("a late member is given what is not safe (72)", classic_join, "sync",
           "out.answer_when_safe(ticket, answer, lambda error: message.refused(not_stored(error)), "
           "tells=group.logged_end)",
           "out.answer(ticket, answer)"),
    Mutant("everybody is given the same", ClassicGroup, "assign",
           "assigned = assignments.get(member.member_id, b\"\")", "assigned = next(iter(assignments.values()), b\"\")"),
    Mutant("what is logged is not what was assigned", ClassicGroup, "_records",
           "assignments.get(member.member_id, b\"\")", "member.assignment"),
    Mutant("the logged assignment does not reach the members", ClassicGroup, "replay",
           "found.assignment, found.sync = member.assignment, None", "found.sync = None"),
    Mutant("a static member comes back to nothing", classic_join, "_join_static",
           "member.assignment, member.is_new = old.assignment, False", "member.is_new = False"),
    Mutant("that a static member is back is not logged", classic_join, "_keep_assignment",
           "group.store(out, assignments, [Answer(ticket, answer)], failed)", "out.answer(ticket, answer)"),
    Mutant("a static member that could not be logged stays", classic_join, "_keep_assignment",
           "group.replace_static(member, old, out)", "pass"),
    # members
    Mutant("sessions never end", ClassicGroup, "_session_over", "elif member is not None and (", "elif False and ("),
    Mutant("who was taken over is never expected", ClassicGroup, "load", "self.refresh(found, out)", "pass"),
    Mutant("members of a dead process are waited for", ClassicGroup, "load",
           "found.group_instance_id is None and is_lost(found.client_host)", "False"),
    Mutant("members of a process that ends are waited for", ClassicGroup, "expect_loss",
           "self._due((\"host\", host), 0, lambda out: self._lose(host, out), out)", "pass"),
    Mutant("a client that was announced is waited for when its process ends", ClassicGroup, "_lose",
           "self.forget_pending(member_id)", "pass"),
    Mutant("a static member is gone with its process", ClassicGroup, "_dynamic_on",
           " and member.group_instance_id is None", ""),
    Mutant("who goes is not told", ClassicGroup, "drop", "self.refuse(member, out, error)", "pass"),
    Mutant("who waits for an assignment is not told of the next rebalance", ClassicGroup, "prepare",
           "self._reset(out, error)", "pass"),
    Mutant("heartbeats that wait are not told of a rebalance", ClassicGroup, "prepare",
           "self.release(member, out, error)", "pass"),
    Mutant("of two heartbeats that wait one is forgotten", ClassicGroup, "hold",
           "self.release(member, out, None)\n    member.heartbeat", "member.heartbeat"),
    Mutant("nobody shares what a member had that left", ClassicGroup, "members_left",
           "self.prepare(out)", "pass"),
    Mutant("a leader that left leads on", Roster, "remove",
           "self.leader = next(iter(self.members), None)", "pass"),
    Mutant("a protocol is counted once too often", Roster, "change_protocols",
           "self._supporters.subtract(set(member.names))", "pass"),
    Mutant("a group with members is deleted", GroupCoordinator, "_delete", "elif not group.is_empty:", "elif False:"),
    Mutant("that a group is empty is tried once to log", ClassicGroup, "_empty_failed",
           "self._due(\"store\", STORE_AGAIN_MS, self._store_empty, out)", "pass"),
    Mutant("tombstones of pending offsets are not written", GroupCoordinator, "_delete",
           "*self._committing.all_tombstones(group_id), ", ""),
]  # fmt: skip
