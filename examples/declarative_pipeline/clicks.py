"""Appends some clicks to a log for the pipeline beside this file: `python clicks.py data`. Each run adds as many."""

import json
import sys

import pylog

PAGES = ("/", "/docs", "/price")


def append(path: str, count: int = 300) -> None:
    """Append clicks, of pages in turn, to the topic `clicks`."""
    with pylog.open(path) as log:
        log.create_topic("clicks", partitions=2, exist_ok=True)
        with log.producer() as producer:
            for number in range(count):
                click = {"user": f"u{number % 7}", "page": PAGES[number % len(PAGES)]}
                producer.send("clicks", json.dumps(click).encode(), key=click["user"].encode())


if __name__ == "__main__":
    append(sys.argv[1] if len(sys.argv) > 1 else "data")
