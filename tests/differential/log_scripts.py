"""Random scripts of operations on the log of one partition, drawn while Kafka's log answers them.

Most of what is drawn makes sense where the log stands; about one operation in eight does not: a sequence that is out of
order, an epoch that has ended, a batch outside of its transaction, a guard that is not asked for.
"""

import random
from typing import Any

from differential.kafka_log import KafkaLog, Op
from pylog.kernel import Record
from pylog.protocol.batch import Batch, encode, encode_marker

T0 = 1_700_000_000_000
DAY_MS = 86_400_000
WRAPS = 2**31 - 4
"""A first sequence behind which 0 comes soon."""
OPERATIONS = {
    "plain": 4, "idempotent": 6, "transactional": 9, "marker": 6, "coordinator": 1, "again": 2, "follower": 2,
    "verify": 3, "watermark": 10, "roll": 3, "advance_clock": 3, "flush": 1, "delete_old_segments": 2,
    "delete_records": 2, "truncate": 2, "truncate_fully": 0.3, "remove_expired_producers": 1, "look": 1,
    "collect_aborted_transactions": 1, "read": 2, "reopen": 2, "crash": 1.5, "begin_epoch": 1,
}  # fmt: skip


class Producing:
    """A producer as its client knows it."""

    def __init__(self, dice: random.Random) -> None:
        self.epoch = 0
        self.sequence = dice.choice([0, 0, 0, WRAPS, 5])
        self.in_transaction = False
        self.sent: list[tuple[int, int, int, bool]] = []


class Script:
    """One script. `ops` are its operations with Kafka's answers."""

    def __init__(self, kafka: KafkaLog, seed: str) -> None:
        self._dice = dice = random.Random(seed)
        self._kafka = kafka
        self.header: dict[str, Any] = {
            "seed": seed,
            "kind": "drawn",
            "dir": f"topic-{dice.randrange(3)}",
            "topic_id": "ESIzRFVmd4iZqrvM3e7_AQ",
            "config": _config(dice),
            "transaction_verification": dice.random() < 0.5,
            "proved": dice.random() < 0.5,
        }
        self.ops: list[Op] = []
        self._weights = {name: weight * dice.choice([0.1, 1, 1, 3]) for name, weight in OPERATIONS.items()}
        self._producers = {1000 + 11 * number: Producing(dice) for number in range(dice.choice([1, 2, 4]))}
        self._state: list[Any] = []
        self._folder: list[str] = []
        self._now_ms = T0
        self._epoch = 0
        self._recovery_point = 0
        kafka.begin(self.header)
        self._do("open", log_start_offset=0, recovery_point=0, clean_shutdown=True)
        self._do("assign_epoch_start_offset", epoch=0, offset=0)

    def draw(self, count: int) -> None:
        """Draw so many operations, and the close; fewer where one breaks Kafka's log."""
        names, weights = list(self._weights), list(self._weights.values())
        while len(self.ops) < count and not self.is_broken:
            getattr(self, "_" + self._dice.choices(names, weights)[0])()
        self._do("close")

    @property
    def is_broken(self) -> bool:
        return bool(self.ops[-1].get("broken"))

    def _do(self, op: str, **words: Any) -> Any:
        if self.ops and self.is_broken:
            return None
        answered = self._kafka.answer({"op": op, **words})
        self.ops.append(answered)
        self._state = answered.get("state", self._state)
        self._folder = list(answered["folder"])
        return answered.get("result")

    def _offset(self, low: int = 0) -> int:
        return self._dice.randint(low, max(low, self._state[3]))

    # --- appends ---------------------------------------------------------------------------------------------------

    def _records(self, most: int = 8) -> list[Record]:
        dice = self._dice
        back = dice.choice([0, 0, 0, 5000, 2 * DAY_MS if dice.random() < 0.1 else 0])
        first = self._now_ms - back - dice.randrange(1000)
        count, size = dice.randint(1, most), dice.choice([1, 20, 100])
        return [Record(bytes(size), key=b"k%d" % number, timestamp=first + number) for number in range(count)]

    def _lead(self, batch: Batch, origin: str = "CLIENT", version: int = -1, guard: str = "sentinel") -> bool:
        self._do(
            "append_as_leader", records=bytes(batch.data).hex(), leader_epoch=self._epoch, origin=origin,
            transaction_version=version, guard=guard,
        )  # fmt: skip
        return "error" not in self.ops[-1]

    def _plain(self) -> None:
        self._lead(encode(self._records(), now_ms=self._now_ms))

    def _coordinator(self) -> None:
        producer_id, known = self._producer()
        batch = encode(
            self._records(), now_ms=self._now_ms, producer_id=producer_id, producer_epoch=known.epoch,
            transactional=self._dice.random() < 0.7,
        )  # fmt: skip
        self._lead(batch, "COORDINATOR", 1, guard=self._dice.choice(["sentinel", "last"]))

    def _idempotent(self) -> None:
        self._produce(transactional=False)

    def _transactional(self) -> None:
        self._produce(transactional=True)

    def _producer(self) -> tuple[int, Producing]:
        return self._dice.choice(list(self._producers.items()))

    def _produce(self, *, transactional: bool) -> None:
        dice = self._dice
        producer_id, known = self._producer()
        epoch, sequence, records = known.epoch, known.sequence, self._records()
        if dice.random() < 0.08:
            sequence = (sequence + dice.choice([-3, -1, 1, 2])) % 2**31
        if dice.random() < 0.06:
            epoch = max(0, epoch + dice.choice([-1, 1, 1]))
            sequence = 0 if dice.random() < 0.8 else sequence
        if transactional and not known.in_transaction and dice.random() < 0.8:
            self._ask(producer_id, epoch, sequence)
        sent = (epoch, sequence, len(records), transactional)
        guard = dice.choice(["last", "last", "last", "sentinel"]) if transactional else "sentinel"
        if self._lead(_batch(producer_id, sent, records), guard=guard):
            known.epoch, known.sequence = epoch, sequence + len(records) & 2**31 - 1
            known.in_transaction |= transactional
            known.sent.append(sent)

    def _again(self) -> None:
        """A batch that was sent before, one of the last ones."""
        producer_id, known = self._producer()
        if known.sent:
            sent = self._dice.choice(known.sent[-7:])
            records = [Record(b"again", timestamp=self._now_ms)] * sent[2]
            self._lead(_batch(producer_id, sent, records), guard=self._dice.choice(["sentinel", "last"]))

    def _marker(self) -> None:
        dice = self._dice
        producer_id, known = self._producer()
        version = dice.choice([0, 1, 2])
        raised = 1 if version == 2 else dice.choice([0, 0, 0, 0, 1])
        epoch = max(0, known.epoch + dice.choice([raised] * 8 + [0, -1]))
        coordinator_epoch = dice.choice([0, 0, 0, 1])
        batch = encode_marker(
            producer_id, epoch, is_abort=dice.random() < 0.5, coordinator_epoch=coordinator_epoch, now_ms=self._now_ms
        )
        if self._lead(batch, "COORDINATOR", version):
            known.in_transaction = False
            if epoch > known.epoch:
                known.epoch, known.sequence = epoch, 0

    def _follower(self) -> None:
        """Bytes of a leader: some batches, behind a gap perhaps."""
        dice = self._dice
        offset = self._state[3] + dice.choice([0, 0, 0, 1, 5, 300])
        data = b""
        for _ in range(dice.randint(1, 4)):
            producer_id, known = self._producer()
            records = self._records(4)
            kind = dice.choice(["plain", "idempotent", "transactional", "marker"])
            if kind == "marker":
                batch = encode_marker(
                    producer_id, known.epoch, is_abort=dice.random() < 0.5, coordinator_epoch=0, now_ms=self._now_ms
                )
                known.in_transaction = False
            elif kind == "plain":
                batch = encode(records, now_ms=self._now_ms)
            else:
                transactional = known.in_transaction or kind == "transactional"
                batch = _batch(producer_id, (known.epoch, known.sequence, len(records), transactional), records)
                known.sequence = known.sequence + len(records) & 2**31 - 1
                known.in_transaction |= transactional
            batch.stamp(offset, self._epoch)
            offset = batch.next_offset + dice.choice([0, 0, 0, 2])
            data += bytes(batch.data)
        self._do("append_as_follower", records=data.hex(), leader_epoch=self._epoch)

    def _verify(self) -> None:
        producer_id, known = self._producer()
        self._ask(producer_id, known.epoch, (known.sequence + self._dice.choice([0, 0, 0, -2, 3])) % 2**31)

    def _ask(self, producer_id: int, epoch: int, sequence: int) -> None:
        self._do(
            "maybe_start_transaction_verification", producer_id=producer_id, sequence=sequence, producer_epoch=epoch,
            supports_epoch_bump=self._dice.random() < 0.3,
        )  # fmt: skip

    # --- the others ------------------------------------------------------------------------------------------------

    def _watermark(self) -> None:
        start, high, _, end, *_ = self._state
        offset = end if self._dice.random() < 0.7 else self._dice.randint(min(high, end), end)
        self._do("update_high_watermark", offset=max(start, offset))

    def _roll(self) -> None:
        self._do("roll")

    def _advance_clock(self) -> None:
        self._now_ms = self._do("advance_clock", ms=self._dice.choice([1, 500, 5000, 60_000, 600_000]))

    def _flush(self) -> None:
        self._do("flush", force_active_segment=self._dice.random() < 0.5)

    def _delete_old_segments(self) -> None:
        self._do("delete_old_segments")

    def _delete_records(self) -> None:
        start, high, *_ = self._state
        self._do("maybe_increment_log_start_offset", offset=self._dice.randint(min(start, high), high))

    def _truncate(self) -> None:
        self._do("truncate_to", offset=self._offset(self._state[0] if self._dice.random() < 0.8 else 0))

    def _truncate_fully(self) -> None:
        self._do("truncate_fully_and_start_at", offset=self._offset() + self._dice.choice([0, 0, 50]))

    def _remove_expired_producers(self) -> None:
        self._do(
            "remove_expired_producers", now=self._now_ms + self._dice.choice([0, DAY_MS - 5000, DAY_MS, 3 * DAY_MS])
        )

    def _look(self) -> None:
        self._do("producers")

    def _collect_aborted_transactions(self) -> None:
        start = self._offset(self._state[0])
        self._do("collect_aborted_transactions", start=start, upper=self._offset(start))

    def _read(self) -> None:
        self._do(
            "read", offset=self._offset(), max_length=self._dice.choice([1, 300, 5000]),
            isolation=self._dice.choice(["LOG_END", "HIGH_WATERMARK", "TXN_COMMITTED"]), min_one_message=True,
        )  # fmt: skip

    def _begin_epoch(self) -> None:
        self._epoch += self._dice.choice([1, 1, 2])
        self._do("assign_epoch_start_offset", epoch=self._epoch, offset=self._state[3])

    # --- opening anew ----------------------------------------------------------------------------------------------

    def _reopen(self) -> None:
        """Close, and open again: as it was closed, or with a snapshot lost."""
        start, is_clean = self._state[0], self._dice.random() < 0.8
        self._do("close")
        if self._dice.random() < 0.3:
            # A clean log without any is taken for one without producers, unless Kafka has left out an index.
            self._lose_a_snapshot(kept=int(is_clean))
        self._open(start, recovery_point=self._state[3], clean=is_clean)

    def _crash(self) -> None:
        start = self._state[0]
        flushed = self._dice.choice([start, self._do("flush", force_active_segment=False) or 0])
        self._do("abandon")
        if self._dice.random() < 0.3:
            self._lose_a_snapshot()
        if self._dice.random() < 0.3:
            self._do("tamper", file=max(name for name in self._folder if name.endswith(".log")), action="append",
                     bytes="00" * self._dice.choice([5, 70]))  # fmt: skip
        self._open(start, recovery_point=flushed, clean=False)

    def _open(self, start: int, *, recovery_point: int, clean: bool) -> None:
        self._do("open", log_start_offset=start, recovery_point=recovery_point, clean_shutdown=clean)

    def _lose_a_snapshot(self, kept: int = 0) -> None:
        found = [name for name in self._folder if name.endswith(".snapshot")]
        if len(found) > kept:
            self._do("tamper", file=self._dice.choice(found), action="delete")


def _batch(producer_id: int, sent: tuple[int, int, int, bool], records: list[Record]) -> Batch:
    epoch, sequence, _, transactional = sent
    return encode(
        records, now_ms=T0, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
        transactional=transactional,
    )  # fmt: skip


def _config(dice: random.Random) -> dict[str, Any]:
    config = {
        "cleanup.policy": dice.choice(["delete", "delete", "compact", "compact,delete"]),
        "file.delete.delay.ms": dice.choice([0, 60_000]),
        "index.interval.bytes": dice.choice([1, 200, 4096]),
        "segment.bytes": dice.choice([1500, 4000, 100_000]),
        "segment.index.bytes": 1024,
        "segment.ms": dice.choice([5000, 30_000, 604_800_000]),
        "retention.ms": dice.choice([20_000, 604_800_000]),
    }
    if dice.random() < 0.3:
        config["retention.bytes"] = dice.choice([1000, 4000])
    return config
