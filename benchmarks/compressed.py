"""Consuming compressed records, against decompressing alone and consuming the same records uncompressed.

The ratio is (decompress alone + consume uncompressed) / consume compressed: 1 means that nothing is lost between the
two. The values are words, so that there is something to compress; "decompress alone" calls the same codec on the same
payloads, which lie in memory.
"""

import random
from pathlib import Path

import pylog
from harness import at_least, measure, report, scaled, scratch, stopwatch
from pylog.protocol.batch import split
from pylog.protocol.compression import Codec, decompress

AT_ONCE = 10_000
COUNT = scaled(usual=150_000, quick=10_000)
ROUNDS = scaled(usual=11, quick=2)
CODECS = ("zstd", "lz4", "snappy", "gzip")
WORDS = [f"{word}-{number}".encode() for word in ("click", "view", "order", "basket", "user") for number in range(40)]


def values() -> list[bytes]:
    draw = random.Random(1)
    return [b" ".join(draw.choices(WORDS, k=16))[:100] for _ in range(COUNT)]


def fill(log: pylog.Log) -> None:
    texts = values()
    for codec in ("none", *CODECS):
        log.create_topic(codec)
        with log.producer(compression_type=codec) as producer:
            for index, value in enumerate(texts):
                producer.send(codec, value, b"%08d" % index)


def consume(log: pylog.Log, topic: str) -> float:
    with log.consumer(topic, auto_offset_reset="earliest", max_poll_records=AT_ONCE) as consumer:
        taken, left = stopwatch(), COUNT
        while left:
            left -= len(consumer.poll(timeout_ms=10_000))
        return taken() / COUNT


def decompressing(folder: Path, topic: str) -> float:
    codec = Codec.parse(topic)
    payloads = [
        bytes(memoryview(batch.data)[61:])
        for path in sorted((folder / f"{topic}-0").glob("*.log"))
        for batch in split(path.read_bytes())
    ]
    taken = stopwatch()
    for payload in payloads:
        decompress(codec, payload)
    return taken() / COUNT


def main() -> None:
    with scratch() as folder, pylog.open(folder / "log", flush="none") as log:
        fill(log)
        plain: list[float] = []

        def uncompressed() -> float:
            plain.append(consume(log, "none"))
            return plain[-1]

        ways = {"uncompressed": uncompressed}
        for codec in CODECS:
            ways[codec] = lambda codec=codec: consume(log, codec)
            # The newest uncompressed run is of this round or of the one before: noise is the same for both.
            ways[f"{codec} alone + uncompressed"] = lambda codec=codec: decompressing(folder / "log", codec) + plain[-1]
        measured = measure(ways, ROUNDS)
    targets = {"zstd": at_least(0.9), "lz4": at_least(0.9)}
    report(
        "compressed",
        [measured.speed(codec, codec, f"{codec} alone + uncompressed", targets.get(codec)) for codec in CODECS],
        records=COUNT,
    )


if __name__ == "__main__":
    main()
