"""Keys always go to the same place, keyless records stay together for a batch, and every partition gets its share."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.kernel import murmur2
from pylog.protocol.partitioner import (
    RoundRobinPartitioner,
    StickyPartitioner,
    crc32_partition,
    murmur3_partition,
    partition_for,
    partition_for_key,
)

MakeSticky = Callable[..., StickyPartitioner]


@pytest.fixture(params=["pure", "compiled"], scope="module")
def make_sticky(request: pytest.FixtureRequest) -> MakeSticky:
    twin = pytest.importorskip(f"pylog.client.record_append.{request.param}", exc_type=ImportError)
    make: MakeSticky = twin.StickyPartitioner
    return make


@given(st.binary(max_size=200), st.integers(1, 1000))
def test_a_key_has_one_partition_and_its_sign_is_masked(key: bytes, partitions: int) -> None:
    chosen = partition_for_key(key, partitions)
    assert 0 <= chosen < partitions
    assert chosen == partition_for_key(bytes(key), partitions)
    assert chosen == (murmur2(key) % 2**31) % partitions


def test_a_negative_hash_is_masked_and_not_negated() -> None:
    key = next(key for key in (bytes([n]) for n in range(256)) if murmur2(key) < 0)
    partitions = 1000
    assert partition_for_key(key, partitions) == (murmur2(key) + 2**31) % partitions
    assert partition_for_key(key, partitions) != -murmur2(key) % partitions


@pytest.mark.parametrize("partitions", [0, -1])
def test_without_partitions_a_choice_is_refused(make_sticky: MakeSticky, partitions: int) -> None:
    with pytest.raises(ValueError, match="there is no partition to choose"):
        partition_for_key(b"k", partitions)
    with pytest.raises(ValueError, match="there is no partition to choose"):
        make_sticky(100).partition(partitions)


def test_murmur3_has_its_own_vectors() -> None:
    """Of SMHasher's reference, seed 0."""
    assert murmur3_partition(b"", 1 << 32) == 0
    assert murmur3_partition(b"test", 1 << 32) == 0xBA6BD213
    assert murmur3_partition(b"Hello, world!", 1 << 32) == 0xC0363E43
    assert murmur3_partition(b"test", 7) == 0xBA6BD213 % 7
    with pytest.raises(ValueError, match="there is no partition to choose"):
        murmur3_partition(b"k", 0)


def test_librdkafkas_default_goes_by_crc32() -> None:
    """The check value of CRC-32 (ISO-HDLC)."""
    assert crc32_partition(b"123456789", 1 << 32) == 0xCBF43926
    assert crc32_partition(b"123456789", 7) == 0xCBF43926 % 7
    with pytest.raises(ValueError, match="there is no partition to choose"):
        crc32_partition(b"k", 0)


def test_round_robin_takes_turns_in_each_topic() -> None:
    choose = RoundRobinPartitioner()
    assert [choose("t", b"same", None, 3) for _ in range(5)] == [0, 1, 2, 0, 1]
    assert [choose("other", None, None, 2) for _ in range(3)] == [0, 1, 0]


def runs(sticky: StickyPartitioner, partitions: int, sizes: list[int]) -> list[int]:
    chosen = []
    for size in sizes:
        chosen.append(sticky.partition(partitions))
        sticky.added(size)
    return chosen


def test_the_sticky_partitioner_stays_until_a_batch_is_full(make_sticky: MakeSticky) -> None:
    chosen = runs(make_sticky(100, Random(7)), 50, [30] * 12)
    assert [len(set(chosen[at : at + 4])) for at in (0, 4, 8)] == [1, 1, 1]
    assert len(set(chosen)) > 1


def test_asking_alone_changes_nothing(make_sticky: MakeSticky) -> None:
    sticky = make_sticky(100, Random(7))
    assert len({sticky.partition(50) for _ in range(100)}) == 1


def test_a_record_larger_than_a_batch_has_its_own_choice(make_sticky: MakeSticky) -> None:
    chosen = runs(make_sticky(100, Random(3)), 1000, [500] * 20)
    assert len(set(chosen)) > 15


def test_without_batches_every_record_is_chosen_for(make_sticky: MakeSticky) -> None:
    chosen = runs(make_sticky(0, Random(3)), 1000, [1] * 20)
    assert len(set(chosen)) > 15
    with pytest.raises(ValueError, match="negative"):
        make_sticky(-1)


def test_every_partition_gets_its_share_of_bytes(make_sticky: MakeSticky) -> None:
    rng = Random(11)
    sizes = [rng.randrange(1, 400) for _ in range(60_000)]
    chosen = runs(make_sticky(1000, Random(5)), 6, sizes)
    per_partition: Counter[int] = Counter()
    for partition, size in zip(chosen, sizes, strict=True):
        per_partition[partition] += size
    share = sum(sizes) / 6
    assert set(per_partition) == set(range(6))
    assert all(0.9 * share < got < 1.1 * share for got in per_partition.values())


@given(st.integers(0, 2**32), st.lists(st.integers(1, 40), min_size=1, max_size=50))
def test_a_choice_stays_within_a_changed_number_of_partitions(
    make_sticky: MakeSticky, seed: int, counts: list[int]
) -> None:
    sticky = make_sticky(100, Random(seed))
    for count in counts:
        assert 0 <= sticky.partition(count) < count
        sticky.added(10)


def test_the_same_seed_chooses_the_same(make_sticky: MakeSticky) -> None:
    sizes = [60] * 40
    assert runs(make_sticky(100, Random(9)), 8, sizes) == runs(make_sticky(100, Random(9)), 8, sizes)


@pytest.mark.parametrize(
    ("name", "partition"),
    [("", 0), ("my-group", 12), ("g1", 42), ("polygenelubricants", 0), ("l😀", 37), ("3.T3DP8uJAßUtIs", 10)],
)
def test_a_group_has_the_partition_that_javas_hash_gives_it(name: str, partition: int) -> None:
    assert partition_for(name, 50) == partition


def test_a_group_has_no_partition_where_there_are_none() -> None:
    with pytest.raises(ValueError, match="no partition to choose"):
        partition_for("g", 0)
