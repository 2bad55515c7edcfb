"""One operation of the random workload of share groups on one server, and the observation of its outcome.

A fetch waits a moment: a broker of Kafka's may hold what the last one read a little longer than its answer took. What a
server does in the background (to load a state, to free what a member had) is waited for.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from conformance.wire.observer import MUCH, Observer
from conformance.wire.share_answers import Held, batch, count_of, joined, merged, moved, rows, wrong_batches
from conformance.wire.share_workload import ACCEPT, GROUPS, MEMBERS, PART, RENEW, TOPICS
from pylog.protocol.messages.share_state import share_partition_name
from support.clients.values import until
from support.raw_client import Body, WireClient, error_name
from support.wire_requests import error_of

SHARE, GROUP_CONFIG = 2, 32
WAIT_MS, AGAIN_MS, LOAD_MS, SETTLE_SECONDS, MOMENT = 100, 30, 1500, 5.0, 0.02
SHORT_MS, LONG_MS = "1000", "3600000"
LOADER = "loader"
IDS = {name: f"{number:022}" for number, name in enumerate([*MEMBERS, LOADER])}
ONE = {"maxWaitMs": 0, "minBytes": 1, "maxRecords": 1, "batchSize": 1}
ALL, KEPT = 500, 8
"""How many ranges are remembered to be acknowledged, of those that a group acquired of a partition."""


@dataclass(slots=True)
class Member:
    """A member of a group with a connection of its own, and the epoch of its next request."""

    wire: WireClient
    epoch: int = 1
    parts: set[PART] = field(default_factory=set)


class ShareObserver(Observer):
    """Carries operations out on one server and gives the observations."""

    def __init__(self, servers: str, closing: ExitStack) -> None:
        self._servers, self._closing = servers, closing
        super().__init__(closing.enter_context(WireClient(servers)))
        self._members_of: dict[tuple[str, str], Member] = {}
        self._held: dict[tuple[str, PART], list[Held]] = {}
        self._unloaded = {(name, part) for name, kind in GROUPS.items() for part in kind.parts}
        self._ids: dict[str, UUID] = {}
        self._cut: set[PART] = set()
        """The partitions of which the beginning was deleted."""
        self._epochs: dict[tuple[str, str], int] = {}
        self._worn: list[tuple[PART, Held]] = []
        """What was delivered so often that it is accepted at once."""

    def begin(self) -> None:
        """Make the topics and the groups, which begin at the first records."""
        for topic, count in TOPICS.items():
            assert self.do_create(topic, count, {})["errorCode"] == 0
            self._ids[topic] = self.requests.topic_id(topic)
        for name, kind in GROUPS.items():
            self._configure(
                name, **kind.configs, **{"share.auto.offset.reset": "earliest"},
                **{"share.delivery.count.limit": str(kind.limit), "share.record.lock.duration.ms": LONG_MS},
            )  # fmt: skip
            for topic, partition in kind.parts:
                key = share_partition_name(name, self._ids[topic], partition)
                until(lambda key=key: self._is_coordinated(key))  # type: ignore[misc]
            for part in kind.parts:
                until(lambda name=name, part=part: self.do_alter_offsets(name, *part, 0.0)[0] == "NONE")  # type: ignore[misc]

    def _is_coordinated(self, key: str) -> bool:
        asked = {"keyType": SHARE, "coordinatorKeys": [key]}
        return error_of(self.wire.ask("FindCoordinator", asked)["coordinators"][0]) == "NONE"

    def _configure(self, group: str, **configs: str) -> None:
        changes = [{"name": name, "configOperation": 0, "value": value} for name, value in configs.items()]
        resource = {"resourceType": GROUP_CONFIG, "resourceName": group, "configs": changes}
        (answer,) = self.wire.ask("IncrementalAlterConfigs", {"resources": [resource]})["responses"]
        assert error_of(answer) == "NONE", answer

    def _member(self, group: str, member: str) -> Member:
        found = self._members_of.get((group, member))
        if found is None:
            found = Member(self._closing.enter_context(WireClient(self._servers)))
            self._members_of[group, member] = found
        return found

    # --- sessions ----------------------------------------------------------------------------------------------------

    def _topics(self, parts: Sequence[PART], said: dict[PART, list[Body]] | None = None) -> list[Body]:
        said = said or {}
        named = sorted({*parts, *said})
        return [
            {"topicId": self._ids[topic], "partitions": [
                {"partitionIndex": number, "acknowledgementBatches": said.get((topic, number), [])}
                for one, number in named if one == topic
            ]}
            for topic in dict.fromkeys(topic for topic, _ in named)
        ]  # fmt: skip

    def _body(self, group: str, member: str, epoch: int, topics: list[Body], **more: Any) -> Body:
        return {"groupId": group, "memberId": IDS[member], "shareSessionEpoch": epoch, "topics": topics, **more}

    def _fetch(
        self, group: str, member: str, *, records: int, min_bytes: int = 1, max_bytes: int = MUCH, size: int = ALL,
        parts: Sequence[PART] = (), said: dict[PART, list[Body]] | None = None, wait_ms: int = WAIT_MS, **more: Any,
    ) -> Any:  # fmt: skip
        kind, mine = GROUPS[group], self._member(group, member)
        mine.parts.update(parts)
        if records and (kind.wants_all or len(mine.parts) > 1):
            # Kafka reads partitions whose end it has seen lately in another order than the others.
            records, max_bytes = ALL, MUCH
        is_cut = not self._cut.isdisjoint(mine.parts)
        body = self._body(
            group, member, mine.epoch, self._topics(parts, said), maxWaitMs=wait_ms, minBytes=min_bytes,
            maxBytes=max_bytes, maxRecords=records, batchSize=size if kind.is_strict else 1,
            shareAcquireMode=int(kind.is_strict), forgottenTopicsData=[],
        )  # fmt: skip
        found = given = self._given(mine, body | more)
        # How far a server reads, and so how many records it gives at once, is its own matter.
        while not isinstance(given, str) and (left := records - count_of(found)) > 0 and (is_cut or count_of(given)):
            is_cut = False
            time.sleep(MOMENT)
            again = {"topics": [], "maxRecords": left, "minBytes": 1, "maxWaitMs": AGAIN_MS}
            given = self._given(mine, body | again | {"shareSessionEpoch": mine.epoch})
            found = merged(found, given)
        if isinstance(found, str):
            return found
        for part, (_, ranges, _) in found.items():
            held = [Held(member, *one) for one in ranges]
            self._worn += [(part, one) for one in held if one.count >= kind.accepts_at]
            self._held[group, part] = (self._held.get((group, part), []) + held)[-KEPT:]
        return sorted(found.items())

    def _given(self, mine: Member, body: Body) -> Any:
        """What an answer gives. Partitions without news are left out: the servers tell them at other times."""
        answer = mine.wire.ask("ShareFetch", body)
        if answer["errorCode"]:
            return error_of(answer)
        mine.epoch += 1
        found = {}
        for topic, part in self._parts(answer):
            names = ("firstOffset", "lastOffset", "deliveryCount")
            ranges = joined([tuple(one[name] for name in names) for one in part["acquiredRecords"]])
            errors = error_of(part), error_name(part["acknowledgeErrorCode"])
            if ranges or set(errors) != {"NONE"}:
                found[topic, part["partitionIndex"]] = errors, ranges, rows(part["records"], ranges)
        return found

    def _parts(self, answer: Body) -> Iterator[tuple[str, Body]]:
        names = {identity: name for name, identity in self._ids.items()}
        for topic in answer["responses"]:
            for part in topic["partitions"]:
                yield names[topic["topicId"]], part

    def _load(self, group: str, parts: list[PART]) -> Any:
        """Have a server load the states of partitions, by a session for each that ends at once."""
        for part in [one for one in parts if (group, one) in self._unloaded]:
            loader = self._member(group, LOADER)
            loader.epoch, loader.parts = 0, set()
            found = self._fetch(group, LOADER, records=1, parts=[part], wait_ms=LOAD_MS)
            if found:
                self._unloaded.discard((group, part))
            yield found, self._spare(group, LOADER), self.do_close(group, LOADER, [], "ShareAcknowledge")

    def do_open(self, group: str, member: str, parts: list[PART], **wish: int) -> Any:
        """Begin a session, or begin it again with its partitions: its end frees what the member has of those alone in
        Kafka.
        """
        mine = self._member(group, member)
        parts = sorted(mine.parts.union(parts))
        loaded = list(self._load(group, parts))
        mine.epoch = 0
        return loaded, self._fetch(group, member, parts=parts, **wish), self._spare(group, member)

    def do_share_fetch(self, group: str, member: str, said: list[Body], **wish: int) -> Any:
        words = [self._said(group, member, word) for word in said]
        loaded = list(self._load(group, sorted(self._member(group, member).parts)))
        found = self._fetch(group, member, said={part: [batch] for part, batch in words if part}, **wish)
        return loaded, found, self._spare(group, member)

    def _spare(self, group: str, member: str) -> Any:
        """Accept what was delivered so often that it would be delivered with fewer others next time."""
        worn, self._worn = self._worn, []
        said = [self._say(group, member, {part: [batch(one.first, one.last, [ACCEPT])]}) for part, one in worn]
        return sorted({str(errors) for errors in said})

    def do_forget(self, group: str, member: str, part: PART, records: int) -> Any:
        """Fetch without a partition, and add it again, for the same reason."""
        mine, (topic, partition) = self._member(group, member), part
        gone = [{"topicId": self._ids[topic], "partitions": [partition]}]
        mine.parts.discard(part)
        without = self._fetch(group, member, records=records, forgottenTopicsData=gone)
        return without, self._fetch(group, member, records=0, parts=[part]), self._spare(group, member)

    def do_stale(self, group: str, member: str, name: str, ahead: int) -> Any:
        mine = self._member(group, member)
        epoch = mine.epoch + (ahead if mine.epoch + ahead > 0 else 1)
        body = self._body(group, member, epoch, [])
        if name == "fetch":
            return error_of(mine.wire.ask("ShareFetch", body | ONE))
        return error_of(mine.wire.ask("ShareAcknowledge", body))

    def do_close(self, group: str, member: str, said: list[Body], by: str) -> Any:
        mine = self._member(group, member)
        words = [self._said(group, member, word) for word in said]
        topics = self._topics([], {part: [batch] for part, batch in words if part})
        body = self._body(group, member, -1, topics)
        if by == "ShareFetch":
            body |= ONE
        answer = mine.wire.ask(by, body)
        mine.epoch, mine.parts = 1, set()
        self._settle(group, member)
        code = "acknowledgeErrorCode" if by == "ShareFetch" else "errorCode"
        return error_of(answer), [(topic, error_name(part[code])) for topic, part in self._parts(answer) if part[code]]

    def do_delete_records(self, topic: str, partition: int, at: float) -> Any:
        self._cut.add((topic, partition))
        return super().do_delete_records(topic, partition, at)

    def do_disconnect(self, group: str, member: str) -> Any:
        mine = self._members_of.pop((group, member), None)
        if mine is not None:
            mine.wire.close()
            self._settle(group, member)
            time.sleep(0.1)
            # Kafka forgets the states of a group whose last member has gone.
            self._unloaded |= {(group, part) for part in GROUPS[group].parts}

    def _settle(self, group: str, member: str) -> None:
        """Wait until what a member has is free again, if it has anything."""
        mine = [
            (part, [one for one in self._held.get((group, part), []) if one.member == member][-1:])
            for part in GROUPS[group].parts
        ]
        self._wait(group, [(part, one) for part, ranges in mine for one in ranges])

    def _wait(self, group: str, ranges: list[tuple[PART, Held]]) -> None:
        """Wait until ranges are free again, or done with: that is written down. Kafka gives them to others a little
        later.
        """
        until_s = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < until_s and not all(self._is_free(group, part, one) for part, one in ranges):
            time.sleep(MOMENT)
        time.sleep(MOMENT)

    def _is_free(self, group: str, part: PART, held: Held) -> bool:
        _, start, batches = self._stored(group, part)
        return all(
            any(first <= offset <= last and count >= held.count for first, last, _, count in batches) or offset < start
            for offset in (held.first, held.last)
        )

    # --- acknowledgements --------------------------------------------------------------------------------------------

    def _said(self, group: str, member: str, word: Body, wrong: str = "") -> tuple[PART | None, Body]:
        """The partition and the batch of an acknowledgement, of those in the session: Kafka goes on with others that no
        session has any more, until the last member of the group has gone.
        """
        parts = self._member(group, member).parts
        mine = [
            (part, one)
            for (name, part), ranges in sorted(self._held.items())
            for one in ranges
            if name == group and part in parts and (one.member == member) != (wrong == "other's")
        ]
        if not mine:
            return None, {}
        part, one = mine[-1 - int(word["of"] * len(mine))]
        first = one.first + int(word["first"] * (one.last - one.first))
        last = first + int(word["share"] * (one.last - first))
        types = word["types"]
        if len(types) > 1:
            types = [types[number % len(types)] for number in range(last + 1 - first)]
        return part, batch(first, last, types)

    def do_acknowledge(self, group: str, member: str, said: Body, wrong: str) -> Any:
        part, right = self._said(group, member, said, wrong)
        if part is None:
            return None
        is_renewed = RENEW in right["acknowledgeTypes"] and not wrong
        return self._say(group, member, {part: wrong_batches(right, wrong)}, isRenewAck=is_renewed)

    def _say(self, group: str, member: str, said: dict[PART, list[Body]], **more: Any) -> Any:
        mine = self._member(group, member)
        body = self._body(group, member, mine.epoch, self._topics([], said), **more)
        answer = mine.wire.ask("ShareAcknowledge", body)
        if answer["errorCode"]:
            return error_of(answer)
        mine.epoch += 1
        return [(topic, part["partitionIndex"], error_of(part)) for topic, part in self._parts(answer)]

    def do_lapse(self, group: str, member: str, renewed: float, **wish: int) -> Any:
        """Let the locks of what a member acquires end, but of those that it renews."""
        mine = self._member(group, member)
        if not mine.parts:
            return None
        loaded = list(self._load(group, sorted(mine.parts)))
        self._lock(group, member, SHORT_MS)
        before = {key: list(ranges) for key, ranges in self._held.items()}
        found = self._fetch(group, member, **wish)
        self._lock(group, member, LONG_MS)
        new = [
            (part, one)
            for (name, part), ranges in self._held.items()
            for one in ranges
            if name == group and one not in before.get((name, part), [])
        ]
        errors = []
        for part, one in new if renewed else []:
            middle = one.first + int(renewed * (one.last - one.first))
            errors.append(self._say(group, member, {part: [batch(one.first, middle, [RENEW])]}, isRenewAck=True))
            one.first = middle + 1
        self._wait(group, [(part, one) for part, one in new if one.first <= one.last])
        return loaded, found, errors, self._spare(group, member)

    def _lock(self, group: str, member: str, duration_ms: str) -> None:
        """Alter how long a lock of the group is, and wait until that is so."""
        self._configure(group, **{"share.record.lock.duration.ms": duration_ms})
        mine = self._member(group, member)

        def is_so() -> bool:
            body = self._body(group, member, mine.epoch, [], maxWaitMs=0, minBytes=0, maxRecords=0, batchSize=1)
            answer = mine.wire.ask("ShareFetch", body)
            mine.epoch += answer["errorCode"] == 0
            return bool(answer["errorCode"] or answer["acquisitionLockTimeoutMs"] == int(duration_ms))

        until(is_so)

    # --- the group ---------------------------------------------------------------------------------------------------

    def do_join(self, group: str, member: str = "") -> Any:
        topics = sorted({topic for topic, _ in GROUPS[group].parts})
        body = {"groupId": group, "memberId": IDS[member], "subscribedTopicNames": topics}

        def joined() -> Body | None:
            epoch = self._epochs.get((group, member), 0)
            answer = self.wire.ask("ShareGroupHeartbeat", body | {"memberEpoch": epoch})
            if error_of(answer) != "NONE":
                return answer
            self._epochs[group, member] = answer["memberEpoch"]
            given = answer["assignment"] or {"topicPartitions": []}
            return answer if given["topicPartitions"] else None

        self._epochs[group, member] = 0
        answer = until(joined)
        # Who has which partition depends on who came first; with a simple assignor each one is given.
        return error_of(answer)

    def do_leave(self, group: str, member: str = "") -> Any:
        self._epochs.pop((group, member), None)
        body = {"groupId": group, "memberId": IDS[member], "memberEpoch": -1}
        answer = self.wire.ask("ShareGroupHeartbeat", body)
        return error_of(answer), answer["memberEpoch"]

    def do_alter_offsets(self, group: str, topic: str, partition: int, at: float) -> Any:
        self._part(group)
        part = {"partitionIndex": partition, "startOffset": self._position(topic, partition, at)}
        asked = {"groupId": group, "topics": [{"topicName": topic, "partitions": [part]}]}
        answer = self.wire.ask("AlterShareGroupOffsets", asked)
        self._forget_states(group, answer, [(topic, partition)])
        return error_of(answer), [error_of(one) for each in answer["responses"] for one in each["partitions"]]

    def do_delete_offsets(self, group: str, topic: str, partition: int, at: float) -> Any:
        self._part(group)
        answer = self.wire.ask("DeleteShareGroupOffsets", {"groupId": group, "topics": [{"topicName": topic}]})
        self._forget_states(group, answer, [one for one in GROUPS[group].parts if one[0] == topic])
        return error_of(answer), [error_of(each) for each in answer["responses"]]

    def _part(self, group: str) -> None:
        """Let all members go. A broker of Kafka's goes on with what it has loaded as long as one is connected, and
        writes that over the offsets that were altered.
        """
        for member in IDS:
            self.do_disconnect(group, member)

    def _forget_states(self, group: str, answer: Body, parts: list[PART]) -> None:
        if error_of(answer) == "NONE":
            self._unloaded |= {(group, part) for part in parts}
            for part in parts:
                self._held.pop((group, part), None)

    def do_offsets(self, group: str) -> Any:
        asked = {"groups": [{"groupId": group, "topics": None}]}
        (found,) = self.wire.ask("DescribeShareGroupOffsets", asked)["groups"]
        rows = []
        for topic in found["topics"]:
            for part in topic["partitions"]:
                where = (topic["topicName"], part["partitionIndex"])
                start = self._stored(group, where)[1] if part["startOffset"] >= 0 else -1
                # Kafka tells of records of aborted transactions later that they are done with.
                lag = None if GROUPS[group].wants_all else part["lag"]
                rows.append((where, max(start, part["startOffset"]), lag, error_of(part)))
        return error_of(found), sorted(rows)

    def do_stored(self, group: str) -> Any:
        return [self._stored(group, part) for part in GROUPS[group].parts]

    def _stored(self, group: str, part: PART) -> tuple[str, int, list[tuple[int, int, int, int]]]:
        """What is written down of a partition: its start, and the states behind it."""
        topic, number = part
        asked = [{"topicId": self._ids[topic], "partitions": [{"partition": number, "leaderEpoch": 0}]}]
        answer = self.wire.ask("ReadShareGroupState", {"groupId": group, "topics": asked})
        (found,) = answer["results"][0]["partitions"]
        names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
        batches = [tuple(one[name] for name in names) for one in found["stateBatches"]]
        start, batches = moved(found["startOffset"], joined(batches))
        if GROUPS[group].wants_all and batches:
            # Kafka does not write down at once that records of aborted transactions are done with.
            start = batches[0][0]
        return error_of(found), start, batches

    def do_groups_of_shares(self, group: str) -> Any:
        listed = self.wire.ask("ListGroups", {"statesFilter": [], "typesFilter": ["share"]})["groups"]
        names = [(one["groupId"], one["groupState"], one["protocolType"]) for one in listed]
        (told,) = self.wire.ask("ShareGroupDescribe", {"groupIds": [group]})["groups"]
        members = [(one["memberId"], one["subscribedTopicNames"]) for one in told["members"]]
        return sorted(names), error_of(told), told["groupState"], told["assignorName"], sorted(members)
