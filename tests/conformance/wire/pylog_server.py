"""A process that serves a log at one address until its standard input ends.

    python pylog_server.py LOG_DIRECTORY HOST:PORT CONFIGS_AS_JSON

It prints the address when it is ready. SIGTERM and the end of the input stop it as a user would; SIGUSR1 writes the
stacks of its threads to standard error.
"""

import faulthandler
import json
import signal
import sys
from typing import Any

import pylog


def main(data: str, listen: str, configs: str) -> None:
    faulthandler.register(signal.SIGUSR1)
    known = {name: text for name, text in json.loads(configs).items() if name not in KAFKA_ONLY}
    node_id = int(known.pop("node.id", 1))
    with pylog.open(data, flush="none", config=known, node_id=node_id) as log:
        # Super users are named where there are ACLs.
        authorizer = "standard" if "super.users" in known else None
        served: Any = log.serve(listen, authorizer=authorizer)  # type: ignore[attr-defined]
        with served as server:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            print(server.bootstrap_servers, flush=True)
            sys.stdin.read()


KAFKA_ONLY = frozenset(["log.initial.task.delay.ms"])
"""Configs that pylog has no need of: how long tasks wait at first."""

if __name__ == "__main__":
    main(*sys.argv[1:])
