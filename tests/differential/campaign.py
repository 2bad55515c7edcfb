"""Send the same requests to pylog and to a real Kafka, and compare the answers: what `make differential` runs.

    python -m differential.campaign 20000               so many requests
    python -m differential.campaign 20000 --seed 7      with other dice
    python -m differential.campaign 100 --round 17      one round alone, as it was in the whole, each request printed

A round has names of its own, so what differs in one leaves the others alone; it ends at the first difference of a
request that changes something. Ends with 1 where a difference is not known.
"""

import argparse
import random
import reprlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from conformance.wire import servers
from conformance.wire.conftest import wait_for_coordinators
from differential.known import DOUBLES, KNOWN
from differential.requests import Asked, Requests, beginning, begins_session, begins_unseen
from differential.server import AGAIN, Server, both_serve, configs_of, identity
from support.every_request import MESSAGES

ROUND = 80
CHANGES_METADATA = {
    "CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs", "DeleteRecords",
    "AlterUserScramCredentials", "AlterPartitionReassignments", "Metadata", "ElectLeaders",
}  # fmt: skip
"""Requests after which a broker of Kafka takes a moment to know the outcome itself."""
LOOKS = {
    "Metadata", "DescribeConfigs", "ListOffsets", "OffsetFetch", "DescribeGroups", "ListGroups", "DescribeCluster",
    "DescribeTopicPartitions", "DescribeProducers", "DescribeTransactions", "ListTransactions", "Fetch",
    "ConsumerGroupDescribe", "DescribeLogDirs", "DescribeUserScramCredentials", "ListConfigResources",
    "OffsetForLeaderEpoch", "FindCoordinator", "DescribeQuorum", "DescribeClientQuotas", "ListPartitionReassignments",
}  # fmt: skip
"""Requests that change nothing: one whose answers differ is asked again, as a server may still be at work."""
NOT_YET = AGAIN | {"UNKNOWN_TOPIC_OR_PARTITION"}
"""What a broker says of a topic that was made a moment ago."""
REFUSED_TWICE = {"CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs"}
"""Requests in which nothing may be named twice."""
AGAIN_TIMES, MOMENT_SECONDS = 6, 0.02
SETTINGS = {"log_cleaner_backoff_ms": "100000000", "max_incremental_fetch_session_cache_slots": "100000"}
"""Nothing is compacted meanwhile, and no fetch session is given up for another one."""
SHORT = reprlib.Repr()
SHORT.maxlevel, SHORT.maxstring, SHORT.maxother, SHORT.maxlist, SHORT.maxdict = 12, 60, 60, 4, 30


class Campaign:
    """The rounds of one seed on two servers, and what was found in them."""

    def __init__(self, pylog: Server, kafka: Server, seed: int, *, verbose: bool) -> None:
        self.pylog, self.kafka, self.seed, self._verbose = pylog, kafka, seed, verbose
        self.served = both_serve(pylog, kafka, MESSAGES)
        pylog.configs = kafka.configs = configs_of(pylog) & configs_of(kafka)
        self.counts: Counter[str] = Counter()
        self.known: Counter[str] = Counter()
        self.found: dict[str, list[str]] = {}
        self.requests = 0

    def round(self, number: int) -> None:
        prefix = f"r{number}"
        dice = random.Random(f"{self.seed}/{number}")
        for server in (self.pylog, self.kafka):
            server.prefix = prefix
            server.numbers.values.clear()
        requests = Requests(dice, prefix, self.served)
        for asked in beginning(prefix):
            self._differs(asked, number, NOT_YET)
        for _ in range(ROUND):
            asked = requests.draw()
            changes = asked.message not in (*LOOKS, "CreateTopics") or begins_session(asked)
            if (self._differs(asked, number) and changes) or begins_unseen(asked):
                break
        self._end(prefix)

    def _differs(self, asked: Asked, number: int, not_ready: set[str] = AGAIN) -> bool:
        answers = self._ask(asked, not_ready)
        for _ in range(AGAIN_TIMES if asked.message in LOOKS else 0):
            if answers[0] == answers[1] or asked.body.get("sessionId"):
                break
            time.sleep(MOMENT_SECONDS)
            answers = self._ask(asked)
        self.requests += 1
        self.counts[asked.message] += 1
        if self._verbose:
            print(f"{asked}\n    pylog {answers[0]}\n    kafka {answers[1]}")
        found = list(differences(*answers))
        for place, pylog, kafka in found:
            self._tell(asked, number, place, pylog, kafka)
        return bool(found)

    def _ask(self, asked: Asked, not_ready: set[str] = AGAIN) -> tuple[Any, Any]:
        both = (self.pylog, self.kafka)
        sent = [server.send(asked) for server in both]
        answers = [word or server.receive(asked) for word, server in zip(sent, both, strict=True)]
        if asked.message in CHANGES_METADATA:
            time.sleep(MOMENT_SECONDS)
        return self.pylog.settled(asked, answers[0], not_ready), self.kafka.settled(asked, answers[1], not_ready)

    def _tell(self, asked: Asked, number: int, place: str, pylog: Any, kafka: Any) -> None:
        """Count a difference."""
        if asked.message not in REFUSED_TWICE and names_twice(self.pylog.numbers.resolve(asked.body)):
            self.known[DOUBLES] += 1
            return
        for known in KNOWN:
            if known.explains(asked, place, pylog, kafka):
                self.known[known.reason] += 1
                return
        key = f"{asked.message}{place}: pylog {SHORT.repr(pylog)}, kafka {SHORT.repr(kafka)}"
        text = f"round {number}: {asked.message} v{asked.version} {SHORT.repr(asked.body)}"
        if key not in self.found:
            print(f"DIFFERS {key}\n    {text}", flush=True)
        self.found.setdefault(key, []).append(text)

    def _end(self, prefix: str) -> None:
        """Delete the topics of the round."""
        for server in (self.pylog, self.kafka):
            every = server.ask(Asked("Metadata", 9, {"topics": None, "allowAutoTopicCreation": False}))
            names = [topic["name"] for topic in every["topics"] if topic["name"].startswith(f"{prefix}-")]
            server.ask(Asked("DeleteTopics", 5, {"topicNames": names, "timeoutMs": 30_000}))


def differences(pylog: Any, kafka: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two answers differ, each with both sides of it. Items of a list have one place."""
    if isinstance(pylog, dict) and isinstance(kafka, dict) and pylog.get("errorCode") != kafka.get("errorCode"):
        yield f"{place}.errorCode", pylog.get("errorCode"), kafka.get("errorCode")
    elif isinstance(pylog, dict) and isinstance(kafka, dict) and pylog.keys() == kafka.keys():
        for name in pylog:
            yield from differences(pylog[name], kafka[name], f"{place}.{name}")
    elif isinstance(pylog, list) and isinstance(kafka, list) and len(distinct(pylog)) == len(distinct(kafka)):
        for one, other in zip(distinct(pylog), distinct(kafka), strict=True):
            yield from differences(one, other, f"{place}[]")
    elif pylog != kafka:
        yield place, pylog, kafka


def distinct(items: list[Any]) -> list[Any]:
    """The items without those that say the same as the one before: what is named twice may be answered once."""
    return [one for one, before in zip(items, [None, *items], strict=False) if one != before]


def names_twice(value: Any) -> bool:
    """Whether a request names something twice in one of its lists."""
    if isinstance(value, dict):
        return any(map(names_twice, value.values()))
    if not isinstance(value, list):
        return False
    named = list(map(identity, value))
    return len(set(named)) < len(named) or any(map(names_twice, value))


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the answers of pylog and of a real Kafka.")
    parser.add_argument("requests", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--round", type=int)
    arguments = parser.parse_args()
    if reason := servers.missing("kafka"):
        print(reason)
        return 1
    began = time.monotonic()
    with ExitStack() as closing:
        both = []
        for name in ("pylog", "kafka"):
            work = Path(closing.enter_context(tempfile.TemporaryDirectory()))
            server = closing.enter_context(servers.running(name, work, **SETTINGS))
            wait_for_coordinators(server)
            both.append(Server(server.bootstrap_servers))
            closing.callback(both[-1].close)
        campaign = Campaign(*both, arguments.seed, verbose=arguments.round is not None)
        number = arguments.round or 0
        while campaign.requests < arguments.requests:
            campaign.round(number)
            number += 1
            if number % 100 == 0:
                print(f"{campaign.requests} requests in {number} rounds", flush=True)
            if arguments.round is not None:
                break
    told(campaign, number, time.monotonic() - began)
    return int(bool(campaign.found))


def told(campaign: Campaign, rounds: int, seconds: float) -> None:
    print(f"{campaign.requests} requests in {rounds} rounds, {seconds:.0f} s, seed {campaign.seed}")
    counts = campaign.counts.values()
    print(f"    {len(counts)} keys, each {min(counts)} to {max(counts)} times")
    for reason, times in campaign.known.most_common():
        print(f"    known, {times} times: {reason}")
    for key, texts in sorted(campaign.found.items(), key=lambda pair: -len(pair[1])):
        print(f"    DIFFERS {len(texts)} times: {key}")


if __name__ == "__main__":
    sys.exit(main())
