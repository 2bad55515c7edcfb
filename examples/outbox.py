"""An outbox: a program's database and its log agree, although no transaction spans both.

    the program     writes the order, and a row that tells of it, in ONE transaction of its database
    the relay       sends the rows, in order, in a transaction of the log that also says up to which row

The relay may be killed anywhere: it goes on behind the last row of its last committed transaction. So every row is in
the log once, in the order in which it was written, and none that the database has rolled back.

    python -m examples.outbox [DIRECTORY]
"""

import os
import sqlite3
import sys
from contextlib import closing

import pylog

GROUP = "outbox"
PLACE = pylog.TopicPartition("orders", 0)


def open_database(path: str) -> sqlite3.Connection:
    """The program's database: its orders, and the events to send."""
    database = sqlite3.connect(path)
    database.executescript(
        """CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT, cents INTEGER);
           CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, event TEXT);"""
    )
    return database


def place_order(database: sqlite3.Connection, customer: str, cents: int) -> None:
    """What the program does: both rows, or neither."""
    with database:
        database.execute("INSERT INTO orders (customer, cents) VALUES (?, ?)", (customer, cents))
        database.execute(
            "INSERT INTO outbox (key, event) VALUES (?, ?)", (customer, f"{customer} ordered for {cents} cents")
        )
        if cents < 0:
            raise ValueError("an order cannot have a negative amount")


def relay(log: pylog.Log, database: sqlite3.Connection, *, most: int = 100) -> int:
    """Send the new rows, at most `most` in one transaction, and return how many."""
    sent = 0
    # Initialised first: a relay that was left over is fenced before this one looks where it stopped.
    with log.producer(transactional_id="outbox-relay") as producer:
        known = log.admin.committed(GROUP).get(PLACE)
        last = int(known.metadata) if known is not None else 0
        while rows := database.execute(
            "SELECT id, key, event FROM outbox WHERE id > ? ORDER BY id LIMIT ?", (last, most)
        ).fetchall():
            with producer.transaction():
                for last, key, event in rows:  # noqa: B007 - the last one is what is committed
                    producer.send("orders", event.encode(), key.encode(), partition=0)
                producer.send_offsets({PLACE: pylog.OffsetAndMetadata(0, str(last))}, GROUP)
            sent += len(rows)
    return sent


def main(path: str = ":memory:") -> None:
    """Orders, one of which is rolled back, and two runs of the relay. The log and the database lie in the directory."""
    if path == ":memory:":
        run(path, path)
    else:
        os.makedirs(path, exist_ok=True)
        run(os.path.join(path, "log"), os.path.join(path, "orders.sqlite3"))


def run(log_path: str, database_path: str) -> None:
    """The same with a log and a database at these places."""
    with closing(open_database(database_path)) as database, pylog.open(log_path) as log:
        log.create_topic("orders", exist_ok=True)
        for number in range(5):
            place_order(database, f"customer-{number}", 100 * number)
        try:
            place_order(database, "mallory", -1)
        except ValueError as error:
            print("rolled back:", error)
        print(relay(log, database, most=2), "rows sent")
        place_order(database, "customer-5", 500)
        print(relay(log, database), "row sent")
        for record in log.topic("orders")[0].records(isolation_level="read_committed"):
            print(record.offset, record.value)


if __name__ == "__main__":
    main(*sys.argv[1:2])
