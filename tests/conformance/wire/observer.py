"""One operation of the random workload on one server, over a raw connection, and the observation of its outcome.

An observation has a form that two servers share. Names of the workload replace the numbers that each server makes for
itself (producer ids, topic ids, member ids); times and addresses are left out. The observer waits until a server has
ended its work in the background.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from conformance.wire.workload import APPEND, DELETE, GROUPS, SET, TRANSACTIONAL_IDS, Operation
from pylog.protocol.batch import Batch, split
from pylog.protocol.codecs import Codec
from support.clients.values import until
from support.raw_client import Body, WireClient, error_name
from support.wire_requests import EARLIEST, T0, TIMEOUT_MS, Requests, error_of, records

OF_CLUSTER, OF_NODE, DEFAULT = 3, 4, 5
IN_OTHER_WAYS = {"min.insync.replicas": OF_CLUSTER, "retention.ms": OF_NODE}
MUCH = 1 << 20
LONG_MS, DAY_MS = 600_000, 86_400_000
SUBSCRIPTION = bytes(2) + bytes(4) + bytes(4)
"""What a member of the classic protocol says: version 0, no topics, no data of its own."""
OWN = {
    "throttleTimeMs", "errorMessage", "logAppendTimeMs", "host", "port", "clusterId", "transactionStartTimeMs",
    "clientHost", "sessionId", "nodeEndpoints", "documentation", "synonyms", "brokers", "recordErrors",
}  # fmt: skip
"""Fields in which two servers may differ: times, addresses, words."""
OF_ONE = re.compile(r"pylog\.|remote\.|local\.|(leader|follower)\.replication\.throttled")
"""Configs of topics that one of the servers has not: of pylog's own, tiered storage, and quotas of replication."""
RETRIED = {"NOT_LEADER_OR_FOLLOWER", "CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"}


@dataclass(slots=True)
class Numbered:
    """A producer as the workload knows it: its id and epoch, and the next sequence of each partition."""

    producer_id: int
    epoch: int
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def identity(self) -> Body:
        return {"producerId": self.producer_id, "producerEpoch": self.epoch}


class Observer:
    """Carries operations out on one server and gives the observations."""

    def __init__(self, wire: WireClient) -> None:
        self.wire, self.requests = wire, Requests(wire)
        self._producers: dict[str, Numbered] = {}
        self._members: dict[str, tuple[str, int]] = {}
        self._names: dict[Any, str] = {-1: "none"}
        self._partitions: dict[str, int] = {}

    def run(self, operation: Operation) -> Any:
        method: Callable[..., Any] = getattr(self, f"do_{operation.name}")
        return self.plain(method(**operation.words))

    def plain(self, value: Any) -> Any:
        """An answer with the names of the workload, without the fields in `OWN`."""
        if isinstance(value, list | tuple):
            return [self.plain(item) for item in value]
        if isinstance(value, UUID):
            return bool(value.int)
        if not isinstance(value, dict):
            return self._names.get(value, value) if isinstance(value, str) else value
        found = {}
        for name, item in value.items():
            if name.lower().endswith("errorcode"):
                found[name] = error_name(item)
            elif name == "producerId":
                found[name] = self._names.get(item, "?")
            elif name in {"timestamp", "lastTimestamp"}:
                found[name] = item if item < T0 + DAY_MS else "now"
            elif name == "records":
                found[name] = [self._batch(batch) for batch in whole_batches(item)]
            elif name not in OWN:
                found[name] = self.plain(item)
        return found

    def _batch(self, batch: Batch) -> dict[str, Any]:
        if batch.is_control:
            return {"marker": str(batch.marker()), "offset": batch.base_offset}
        rows = [(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in batch.records("", 0)]
        return {
            "rows": rows, "producer": self._names.get(batch.producer_id, "?"), "epoch": batch.producer_epoch,
            "sequence": batch.base_sequence, "attributes": batch.attributes, "last": batch.last_offset,
            "leader_epoch": batch.leader_epoch, "times": (batch.base_timestamp, batch.max_timestamp),
        }  # fmt: skip

    def _sent_part(self, topic: str, version: int) -> int:
        """The version to use: from 13 on a topic has to be there to have an id."""
        return version if topic in self._partitions else min(version, 12)

    def do_create(self, topic: str, partitions: int, configs: dict[str, str]) -> Any:
        rows = [{"name": name, "value": value} for name, value in configs.items()]
        asked = {"name": topic, "numPartitions": partitions, "replicationFactor": 1, "configs": rows}
        (answer,) = self.wire.ask("CreateTopics", {"topics": [asked], "timeoutMs": TIMEOUT_MS})["topics"]
        if answer["errorCode"] == 0:
            self._partitions[topic] = answer["numPartitions"]
            until(lambda: self._is_led(topic))
        configs = {each["name"]: each["value"] for each in answer["configs"] or () if not OF_ONE.match(each["name"])}
        return {**answer, "configs": configs}

    def _is_led(self, topic: str) -> bool:
        (found,) = self.requests.metadata(topic)["topics"]
        ready = len(found["partitions"]) == self._partitions[topic]
        numbers = range(self._partitions[topic] if ready else 0)
        return ready and all(self.requests.list_offsets(topic, -1, partition=n)["errorCode"] == 0 for n in numbers)

    def do_delete(self, topic: str) -> Any:
        asked = {"topics": [{"name": topic}], "timeoutMs": TIMEOUT_MS}
        (answer,) = self.wire.ask("DeleteTopics", asked)["responses"]
        if answer["errorCode"] == 0:
            del self._partitions[topic]
            for producer in self._producers.values():
                for key in [key for key in producer.sequences if key[0] == topic]:
                    del producer.sequences[key]
            until(lambda: self._is_gone(topic))
        return answer

    def _is_gone(self, topic: str) -> bool:
        """Whether nothing is left of a topic, not in the metadata, nor in committed offsets, nor in transactions."""
        (found,) = self.requests.metadata(topic)["topics"]
        offsets = [self.do_committed(group, topic, number) for group in GROUPS for number in range(3)]
        return found["errorCode"] != 0 and all(each["committedOffset"] == -1 for each in offsets)

    def do_grow(self, topic: str, count: int) -> Any:
        asked = {"topics": [{"name": topic, "count": count, "assignments": None}], "timeoutMs": TIMEOUT_MS}
        (answer,) = self.wire.ask("CreatePartitions", asked)["results"]
        if answer["errorCode"] == 0:
            self._partitions[topic] = count
            until(lambda: self._is_led(topic))
        return answer

    def do_produce(
        self, topic: str, partition: int, codec: str, version: int, values: list[bytes], timestamp: int, acks: int
    ) -> Any:
        data = records(*values, timestamp=timestamp, codec=Codec[codec.upper()])
        version = self._sent_part(topic, max(version, 7 if codec == "zstd" else 3))
        return self.requests.produce(topic, data, partition=partition, acks=acks, version=version)

    def do_number(self, name: str) -> Any:
        found = self.requests.init_producer()
        self._producers[name] = Numbered(found["producerId"], found["producerEpoch"])
        self._names[found["producerId"]] = f"{name}, {len(self._names)}"
        return found

    def do_numbered(self, name: str, topic: str, partition: int, values: list[bytes], ahead: int, newer: int) -> Any:
        producer = self._producers.get(name)
        if producer is None:
            return None
        sequence = producer.sequences.get((topic, partition), 0) + ahead
        epoch = producer.epoch + newer
        if sequence < 0 or epoch < 0:
            return None
        identity = {"producer_id": producer.producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        part = self.requests.produce(
            topic, records(*values, **identity), partition=partition, version=self._sent_part(topic, 13)
        )
        if part["errorCode"] == 0 and ahead >= 0:
            if newer:
                producer.epoch, producer.sequences = epoch, {}
            producer.sequences[topic, partition] = sequence + len(values)
        return part

    def do_own(self, name: str) -> Any:
        found = until(lambda: self._settled(self.requests.init_producer(name, timeout_ms=LONG_MS)))
        self._names.setdefault(found["producerId"], f"{name}, {len(self._names)}")
        self._producers[name] = Numbered(found["producerId"], found["producerEpoch"])
        return found

    def _settled(self, answer: Body) -> Body | None:
        return None if error_of(answer) in RETRIED else answer

    def do_add(self, name: str, topic: str, partition: int) -> Any:
        producer = self._producers.get(name)
        if producer is None:
            return None

        def added() -> str | None:
            error = self.requests.add_partitions(name, producer.identity, topic, [partition])
            return None if error in RETRIED else error

        return until(added)

    def do_transact(self, name: str, topic: str, partition: int, values: list[bytes], version: int) -> Any:
        producer = self._producers.get(name)
        if producer is None:
            return None
        sequence = producer.sequences.get((topic, partition), 0)
        identity = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "base_sequence": sequence}
        data = records(*values, transactional=True, **identity)
        sent = {"partition": partition, "transactional_id": name, "version": version}
        part = until(lambda: self._settled(self.requests.produce(topic, data, **sent)))
        if part["errorCode"] == 0:
            producer.sequences[topic, partition] = sequence + len(values)
        return part

    def do_end(self, name: str, commit: bool, version: int) -> Any:
        producer = self._producers.get(name)
        if producer is None:
            return None
        end = self.requests.end
        answer = until(lambda: self._settled(end(name, producer.identity, commit=commit, version=version)))
        if answer["errorCode"] == 0 and version >= 5:
            producer.producer_id, producer.epoch, producer.sequences = answer["producerId"], answer["producerEpoch"], {}
        until(
            lambda: (
                self._transaction(name)["transactionState"] in {"Ongoing", "CompleteCommit", "CompleteAbort", "Empty"}
            )
        )
        return answer

    def _transaction(self, name: str) -> Body:
        found: Body = self.wire.ask("DescribeTransactions", {"transactionalIds": [name]})["transactionStates"][0]
        return found

    def _position(self, topic: str, partition: int, at: float) -> int:
        """An offset: 0 is the start of the log, 1 its end."""
        start = self.requests.list_offsets(topic, -2, partition=partition)["offset"]
        end = self.requests.list_offsets(topic, -1, partition=partition)["offset"]
        return int(start + at * (end - start + 1)) if start >= 0 else 0

    def do_fetch(
        self, topic: str, partition: int, at: float, isolation: int, version: int, max_bytes: int
    ) -> Any:  # fmt: skip
        offset, version = self._position(topic, partition, at), self._sent_part(topic, version)
        more = {"isolation": isolation, "max_bytes": max_bytes, "version": version}
        part = self.requests.fetch(topic, offset, partition=partition, **more)
        if 1 < max_bytes < MUCH:
            # How much a batch takes that the server has compressed, and so how many there are, is its own matter.
            first = whole_batches(part["records"])[:1]
            part["records"] = first[0].data if first else b""
        # Kafka adds transactions behind these records, as far as an entry of the index reaches.
        end = max((batch.last_offset for batch in whole_batches(part["records"])), default=-1)
        aborted = [each for each in part["abortedTransactions"] or () if each["firstOffset"] <= end]
        part["abortedTransactions"] = sorted(aborted, key=str)
        # Kafka may name an offset below the start, where an open transaction began that was deleted.
        if "lastStableOffset" in part:
            part["lastStableOffset"] = max(part["lastStableOffset"], part.get("logStartOffset", -1))
        return part

    def do_list_offsets(self, topic: str, partition: int, timestamp: int, isolation: int, version: int) -> Any:
        more = {"isolation": isolation, "version": version}
        found = self.requests.list_offsets(topic, timestamp, partition=partition, **more)
        # Kafka finds nothing where the first record that is as new was deleted.
        is_cut = timestamp >= 0 and self.requests.offset(topic, EARLIEST, partition=partition) > 0
        return error_of(found) if is_cut else found

    def do_delete_records(self, topic: str, partition: int, at: float) -> Any:
        part = {"partitionIndex": partition, "offset": self._position(topic, partition, at)}
        asked = {"topics": [{"name": topic, "partitions": [part]}], "timeoutMs": TIMEOUT_MS}
        return self.wire.ask("DeleteRecords", asked)["topics"]

    def do_commit(self, group: str, topic: str, partition: int, offset: int, metadata: str, version: int) -> Any:
        more: Body = {"metadata": metadata, "version": version, "partition": partition}
        if group in self._members:
            member_id, generation = self._members[group]
            more |= {"member_id": member_id, "generation": generation}
        return self.requests.commit_offset(group, topic, offset, **more)

    def do_committed(self, group: str, topic: str, partition: int) -> Any:
        return self.requests.fetch_offset(group, topic, partition=partition, version=9)

    def do_describe_group(self, group: str) -> Any:
        return "hollow" if self._is_hollow(group) else self.wire.ask("DescribeGroups", {"groups": [group]})["groups"]

    def do_delete_group(self, group: str) -> Any:
        is_hollow = self._is_hollow(group)
        results = self.wire.ask("DeleteGroups", {"groupsNames": [group]})["results"]
        return "hollow" if is_hollow else results

    def do_delete_offset(self, group: str, topic: str, partition: int) -> Any:
        parts = [{"partitionIndex": partition}]
        if self._is_hollow(group):
            return "hollow"
        return self.wire.ask("OffsetDelete", {"groupId": group, "topics": [{"name": topic, "partitions": parts}]})

    def do_join(self, group: str) -> Any:
        """A member joins and is the leader, or it joins again."""
        member_id, _ = self._members.get(group, ("", -1))
        body = {
            "groupId": group, "sessionTimeoutMs": 300_000, "rebalanceTimeoutMs": 300_000, "memberId": member_id,
            "protocolType": "consumer", "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        }  # fmt: skip
        answer = self.wire.ask("JoinGroup", body)
        if error_of(answer) == "MEMBER_ID_REQUIRED":
            answer = self.wire.ask("JoinGroup", body | {"memberId": answer["memberId"]})
        if answer["errorCode"] == 0:
            member_id, generation = answer["memberId"], answer["generationId"]
            self._members[group], self._names[member_id] = (member_id, generation), f"member of {group}"
            synced = {"groupId": group, "generationId": generation, "memberId": member_id}
            synced |= {"protocolType": "consumer", "protocolName": "range"}
            mine = [{"memberId": member_id, "assignment": b"all"}]
            return [answer, self.wire.ask("SyncGroup", {**synced, "assignments": mine})]
        return answer

    def do_beat(self, group: str) -> Any:
        member_id, generation = self._members.get(group, ("stranger", 1))
        return self.wire.ask("Heartbeat", {"groupId": group, "memberId": member_id, "generationId": generation})

    def do_leave(self, group: str) -> Any:
        member_id, _ = self._members.pop(group, ("stranger", 1))
        return self.wire.ask("LeaveGroup", {"groupId": group, "members": [{"memberId": member_id}]})

    def do_alter(self, topic: str, name: str, value: str, operation: int) -> Any:
        change = {"name": name, "configOperation": operation, "value": None if operation == DELETE else value}
        resource = {"resourceType": 2, "resourceName": topic, "configs": [change]}
        (answer,) = self.wire.ask("IncrementalAlterConfigs", {"resources": [resource]})["responses"]
        if answer["errorCode"] == 0:
            until(lambda: self._is_altered(topic, name, value, operation))
        return answer

    def _is_altered(self, topic: str, name: str, value: str, operation: int) -> bool:
        row = self.do_describe_configs(topic)[1].get(name)
        if row is None:
            return True  # a config that there is not was deleted
        now, source, *_ = row
        if operation == SET:
            return bool(now == value)
        if operation == DELETE:
            return bool(source != 1)
        values, has = set(value.split(",")), set((now or "").split(","))
        return values <= has if operation == APPEND else not values & has

    def do_describe_configs(self, topic: str) -> Any:
        asked = {"resources": [{"resourceType": 2, "resourceName": topic, "configurationKeys": None}]}
        (answer,) = self.wire.ask("DescribeConfigs", asked)["results"]
        fields = ("value", "configSource", "readOnly", "isSensitive", "configType")
        rows = [row for row in answer["configs"] if not OF_ONE.match(row["name"])]
        for row in rows:
            # Kafka sets the one for the cluster when it is formatted; of the other one pylog's default is -1.
            if row["configSource"] == IN_OTHER_WAYS.get(row["name"]):
                row["configSource"] = DEFAULT
        return error_of(answer), {row["name"]: tuple(row[name] for name in fields) for row in rows}

    def do_metadata(self, topic: str) -> Any:
        return self.requests.metadata(topic)["topics"]

    def do_producers(self, topic: str) -> Any:
        asked = {"topics": [{"name": topic, "partitionIndexes": [0, 1]}]}
        (answer,) = self.wire.ask("DescribeProducers", asked)["topics"]
        for part in answer["partitions"]:
            part["activeProducers"] = sorted(part["activeProducers"], key=lambda each: self._names[each["producerId"]])
        return answer

    def do_transactions(self, topic: str) -> Any:
        listed = self.wire.ask("ListTransactions", {})["transactionStates"]
        mine = [each for each in listed if each["transactionalId"] in TRANSACTIONAL_IDS]
        described = [self._transaction(name) for name in TRANSACTIONAL_IDS]
        for each in described:
            each["topics"] = sorted((one["topic"], sorted(one["partitions"])) for one in each["topics"])
        return sorted(mine, key=lambda each: str(each["transactionalId"])), described

    def do_groups(self, topic: str) -> Any:
        listed = self.wire.ask("ListGroups", {})["groups"]
        return sorted((each for each in listed if not self._is_hollow(each["groupId"])), key=str)

    def _is_hollow(self, group: str) -> bool:
        """Whether a group has neither members nor offsets. Kafka makes one of a commit that it refuses, and keeps it
        until it looks for such groups, or is started again; pylog has none.
        """
        (found,) = self.wire.ask("DescribeGroups", {"groups": [group]}, version=5)["groups"]
        asked = {"groups": [{"groupId": group, "topics": None}]}
        (stored,) = self.wire.ask("OffsetFetch", asked, version=9)["groups"]
        return found["groupState"] in ("Dead", "Empty") and not found["protocolType"] and not stored["topics"]

    def do_epochs(self, topic: str) -> Any:
        parts = [{"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": epoch} for epoch in (0,)]
        return self.wire.ask(
            "OffsetForLeaderEpoch", {"replicaId": -1, "topics": [{"topic": topic, "partitions": parts}]}
        )


def whole_batches(data: bytes | None) -> list[Batch]:
    """The batches of a fetch, without one that is cut off at the end."""
    return list(split(data or b""))
