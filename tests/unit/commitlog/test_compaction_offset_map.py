"""The key map: what was put last is found, whatever collides, in the memory it was given."""

import random

import pytest

from pylog.commitlog.compaction.offset_map import SLOT_BYTES, KeyMap
from pylog.kernel import Judgement, encode_records, scan_records


def records(pairs):
    """Records with these offsets, which rise, and keys."""
    data, count, _, _ = encode_records([(b"v", None, 0, ())] * (pairs[-1][0] + 1 - pairs[0][0]), 0, 0)
    keys = dict(pairs)
    data, _, _, _ = encode_records([(b"v", keys.get(pairs[0][0] + n), 0, ()) for n in range(count)], 0, 0)
    spans = scan_records(data, count, pairs[0][0], pairs[-1][0], 0, None)
    return spans.select(bytes(offset in keys for offset, *_ in spans))


def put(keys, offset, key):
    return keys.put(records([(offset, key)]))


def is_newest(keys, offset, key):
    """Whether `offset` is the newest of `key`, and the one before it is not."""
    found = b"".join(keys.judge(records([(at, key)])) for at in (offset - 1, offset))
    return found == bytes([Judgement.SUPERSEDED, Judgement.NEWEST])


def is_unknown(keys, key):
    return keys.judge(records([(0, key)])) == bytes([Judgement.NEWEST])


def test_the_newest_offset_of_a_key_is_found():
    keys = KeyMap(100 * SLOT_BYTES)
    assert put(keys, 1, b"a") and put(keys, 5, b"b") and put(keys, 9, b"a") and put(keys, 10, b"")
    assert is_newest(keys, 9, b"a") and is_newest(keys, 5, b"b") and is_newest(keys, 10, b"")
    assert is_unknown(keys, b"c")
    assert (len(keys), keys.latest_offset) == (3, 10)


def test_records_are_told_apart():
    keys = KeyMap(100 * SLOT_BYTES)
    assert keys.put(records([(5, b"a"), (6, b"b")]))
    data, count, _, _ = encode_records([(b"v", b"a", 0, ()), (b"v", None, 0, ()), (None, b"b", 0, ())] * 2, 0, 0)
    assert list(keys.judge(scan_records(data, count, 4, 9, 0, None))) == [
        Judgement.SUPERSEDED, Judgement.WITHOUT_KEY, Judgement.NEWEST_TOMBSTONE, *[Judgement.UNSEEN] * 3,
    ]  # fmt: skip


def test_records_without_a_key_and_below_the_first_offset_are_not_noted():
    keys = KeyMap(100 * SLOT_BYTES)
    assert keys.put(records([(4, b"old"), (5, None), (6, b"new")]), first_offset=5)
    assert is_unknown(keys, b"old") and is_newest(keys, 6, b"new") and len(keys) == 1


def test_a_full_map_refuses_known_keys_too_and_says_how_far_it_came():
    keys = KeyMap(24 * SLOT_BYTES)
    assert keys.capacity == 21
    assert keys.put(records([(offset, b"%d" % offset) for offset in range(20)]))
    assert not keys.is_full
    assert not keys.put(records([(100, b"0"), (101, b"last"), (102, b"0"), (103, b"more")]))
    assert keys.is_full and keys.fill == 1.0
    assert is_newest(keys, 100, b"0") and is_newest(keys, 101, b"last") and is_unknown(keys, b"more")
    assert (len(keys), keys.latest_offset) == (21, 101)


@pytest.mark.parametrize("slots", [2, 3, 24, 256, 1000, 65_536])
def test_every_key_is_found_when_the_map_is_full(slots):
    keys = KeyMap(slots * SLOT_BYTES)
    chance = random.Random(slots)
    put_in_order = [(offset, b"%d" % chance.randrange(3 * slots)) for offset in range(10 * slots)]
    for start in range(0, len(put_in_order), 100):
        if not keys.put(records(put_in_order[start : start + 100])):
            break
    model = {key: offset for offset, key in put_in_order[: keys.latest_offset + 1]}
    assert len(keys) == len(model) == keys.capacity
    judged = keys.judge(records(put_in_order[: keys.latest_offset + 1]))
    newest = set(model.values())
    assert list(judged) == [
        Judgement.NEWEST if offset in newest else Judgement.SUPERSEDED for offset in range(len(judged))
    ]
    assert all(is_unknown(keys, b"%d" % number) for number in range(3 * slots, 3 * slots + 100))


def test_few_possible_keys_need_a_small_table_only():
    keys = KeyMap(1 << 30, keys_max=1000)
    assert keys.slots < 2000 and keys.capacity > 1000
    assert keys.put(records([(offset, b"%d" % offset) for offset in range(1000)]))
    assert all(is_newest(keys, offset, b"%d" % offset) for offset in range(1, 1000))
    assert KeyMap(SLOT_BYTES * 100, keys_max=1000).slots == 100
    assert put(KeyMap(1 << 20, keys_max=0), 3, b"key")


def test_a_buffer_without_room_for_a_key_is_refused():
    with pytest.raises(ValueError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        KeyMap(SLOT_BYTES)
    assert KeyMap(2 * SLOT_BYTES).capacity == 1
