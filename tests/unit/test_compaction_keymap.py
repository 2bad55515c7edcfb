"""The key map: what was put last is found, whatever collides, in the memory it was given."""

import random

import pytest

from pylog.compaction.keymap import SLOT_BYTES, KeyMap


def record(offset, key):
    return (offset, key, True, 0, 0, 0)


def put(keys, offset, key):
    return keys.put([record(offset, key)])


def newest(keys, key):
    return keys.newest([record(0, key)])[0]


def test_the_newest_offset_of_a_key_is_found():
    keys = KeyMap(100 * SLOT_BYTES)
    assert put(keys, 0, b"a") and put(keys, 5, b"b") and put(keys, 9, b"a") and put(keys, 10, b"")
    assert [newest(keys, key) for key in (b"a", b"b", b"", b"c", None)] == [9, 5, 10, -1, -1]
    assert (len(keys), keys.latest_offset) == (3, 10)


def test_records_without_a_key_and_below_the_first_offset_are_not_noted():
    keys = KeyMap(100 * SLOT_BYTES)
    assert keys.put([record(4, b"old"), record(5, None), record(6, b"new")], first_offset=5)
    assert (newest(keys, b"old"), newest(keys, b"new"), len(keys)) == (-1, 6, 1)


def test_a_full_map_refuses_known_keys_too_and_says_how_far_it_came():
    keys = KeyMap(24 * SLOT_BYTES)
    assert keys.capacity == 21
    assert keys.put([record(offset, b"%d" % offset) for offset in range(20)])
    assert not keys.is_full
    assert not keys.put([record(100, b"0"), record(101, b"last"), record(102, b"0"), record(103, b"more")])
    assert keys.is_full and keys.fill == 1.0
    assert (newest(keys, b"0"), newest(keys, b"last"), newest(keys, b"more")) == (100, 101, -1)
    assert (len(keys), keys.latest_offset) == (21, 101)


@pytest.mark.parametrize("slots", [2, 3, 24, 256, 1000, 65_536])
def test_every_key_is_found_when_the_map_is_full(slots):
    keys = KeyMap(slots * SLOT_BYTES)
    model = {}
    chance = random.Random(slots)
    for offset in range(10 * slots):
        key = b"%d" % chance.randrange(3 * slots)
        if not put(keys, offset, key):
            break
        model[key] = offset
    assert len(keys) == len(model) == keys.capacity
    wanted = [record(0, b"%d" % number) for number in range(3 * slots)]
    assert keys.newest(wanted) == [model.get(key, -1) for _, key, *_ in wanted]


def test_few_possible_keys_need_a_small_table_only():
    keys = KeyMap(1 << 30, keys_max=1000)
    assert keys.slots < 2000 and keys.capacity > 1000
    assert keys.put([record(offset, b"%d" % offset) for offset in range(1000)])
    assert [newest(keys, b"%d" % offset) for offset in range(1000)] == list(range(1000))
    assert KeyMap(SLOT_BYTES * 100, keys_max=1000).slots == 100
    assert put(KeyMap(1 << 20, keys_max=0), 3, b"key")


def test_a_buffer_without_room_for_a_key_is_refused():
    with pytest.raises(ValueError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        KeyMap(SLOT_BYTES)
    assert KeyMap(2 * SLOT_BYTES).capacity == 1
