"""An event-sourced bank: what has happened is the truth, and balances follow from it.

    transfers    every transfer there was, in order; never changed
    balances     compacted: the newest balance of each account, and how far the events have been taken into account

A transfer and the balances that follow from it are one transaction, so no crash leaves money half moved. A bank that
is opened again reads the balances, which are as many as accounts, not the transfers, which are as many as ever were.

    python -m examples.bank [DIRECTORY]
"""

import json
import random
import sys

import pylog


class Bank:
    """Accounts with balances in cents. One bank at a time writes: opening another one fences it."""

    def __init__(self, log: pylog.Log) -> None:
        log.create_topic("transfers", exist_ok=True)
        log.create_topic(
            "balances", config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}, exist_ok=True
        )
        self._producer = log.producer(transactional_id="bank")
        self.balances = read_balances(log)

    def transfer(self, source: str, target: str, cents: int) -> None:
        """Move money. Raises ValueError where there is not enough; nothing has happened then."""
        if cents <= 0 or source == target:
            raise ValueError("a transfer needs a positive amount and two accounts")
        if source != "cash" and self.balances.get(source, 0) < cents:
            raise ValueError(f"{source} has {self.balances.get(source, 0)} cents, not {cents}")
        after = {
            source: self.balances.get(source, 0) - cents,
            target: self.balances.get(target, 0) + cents,
        }
        with self._producer.transaction():
            self._producer.send("transfers", json.dumps([source, target, cents]).encode())
            for account, balance in after.items():
                self._producer.send("balances", b"%d" % balance, key=account.encode())
        self.balances |= after

    def close(self) -> None:
        """Give up the accounts."""
        self._producer.close()


def read_balances(log: pylog.Log) -> dict[str, int]:
    """The newest balance of every account: the compacted topic, read from its start to its end."""
    return {
        (record.key or b"").decode(): int(record.value or b"0")
        for record in log.topic("balances")[0].records(isolation_level="read_committed")
    }


def replay(log: pylog.Log) -> dict[str, int]:
    """The same from what has happened: the audit."""
    balances: dict[str, int] = {}
    for record in log.topic("transfers")[0].records(isolation_level="read_committed"):
        source, target, cents = json.loads(record.value or b"[]")
        balances[source] = balances.get(source, 0) - cents
        balances[target] = balances.get(target, 0) + cents
    return balances


def main(path: str = ":memory:") -> None:
    """Some customers pay in, and then move money around at random."""
    dice = random.Random(1)
    with pylog.open(path) as log:
        bank = Bank(log)
        customers = [f"customer-{number}" for number in range(5)]
        for name in customers:
            bank.transfer("cash", name, 10_000)
        refused = 0
        for _ in range(200):
            source, target = dice.sample(customers, 2)
            try:
                bank.transfer(source, target, dice.randrange(1, 5000))
            except ValueError:
                refused += 1
        bank.close()
        log.clean("balances")
        print(f"{200 - refused} transfers, {refused} refused")
        print("balances", read_balances(log))
        print(
            "the audit agrees:", read_balances(log) == replay(log), "and nothing was lost:", sum(replay(log).values())
        )


if __name__ == "__main__":
    main(*sys.argv[1:2])
