"""`pylog serve`: the log as a server for every Kafka client.

    pylog: serving data at 127.0.0.1:9092; Ctrl-C stops it            on stderr, when clients can connect
    pylog: stopped after 3 connections and 1,204 requests

SIGINT and SIGTERM stop it: it accepts no more, answers the requests that it has, closes the log and ends with 0.
"""

import argparse
import signal
import time

import pylog
from pylog.cli.arguments import Parser, add_directory, config_pair, examples, log_paths
from pylog.cli.opening import owned
from pylog.cli.output import plural, say
from pylog.open_log import MEMORY

__all__ = ["add"]

LISTEN = "127.0.0.1:9092"
NAP_SECONDS = 3600.0


def add(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Add `serve`."""
    parser = commands.add_parser(
        "serve", help="serve the log to Kafka clients",
        description="Serve the log to Kafka clients until Ctrl-C. There is no authentication: every client "
        "that reaches the address may read and change everything.",
        epilog=examples((
            "pylog serve --log data",
            "pylog serve --log :memory: --listen 127.0.0.1:0",
            "pylog serve --log data --listen 0.0.0.0:9092 --advertise kafka.example.org:9092",
            "pylog serve --log data --listen 127.0.0.1:9092 --listen IN://0.0.0.0:9093 --advertise IN://kafka:9093",
        )),
    )  # fmt: skip
    add_directory(parser)
    parser.add_argument(
        "--listen", metavar="[NAME://]HOST:PORT", action="append",
        help=f"where to listen; port 0 takes one that is free; may be repeated with a name each (default: {LISTEN})",
    )  # fmt: skip
    parser.add_argument(
        "--advertise", metavar="[NAME://]HOST:PORT", action="append",
        help="what clients of that listener are told to connect to; needed where it is 0.0.0.0, as in a container",
    )  # fmt: skip
    parser.add_argument(
        "--flush", choices=("sync", "interval", "none"),
        help="when records are durable: before they are acknowledged (sync, the default on disk), within a second, or "
        "when the system pleases",
    )  # fmt: skip
    parser.add_argument(
        "--config", "-c", type=config_pair, action="append", default=[], metavar="NAME=VALUE",
        help="a config of the node, under Kafka's name; may be repeated: num.partitions=3",
    )  # fmt: skip
    parser.set_defaults(run=serve, parser=parser)


def serve(args: argparse.Namespace) -> int:
    """Run `serve`."""
    paths, options = log_paths(args), {"flush": args.flush, "config": dict(args.config)}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    log = pylog.open(MEMORY, **options) if paths == [MEMORY] else owned(paths, **options)
    with log, log.serve(args.listen or LISTEN, advertise=args.advertise) as server:
        try:
            # From this line on, a signal is how it ends.
            places = ", ".join(map(str, server.addresses.values()))
            say(f"serving {', '.join(paths)} at {places}; Ctrl-C stops it")
            while True:
                time.sleep(NAP_SECONDS)
        except KeyboardInterrupt:
            server.close()
    counts = server.counts
    say(f"stopped after {plural(counts.connections, 'connection')} and {plural(counts.requests, 'request')}")
    return 0
