"""`pylog serve`: the log as a server for every Kafka client.

    pylog: serving data at 127.0.0.1:9092; Ctrl-C stops it            on stderr, when clients can connect
    pylog: stopped after 3 connections and 1,204 requests

SIGINT and SIGTERM stop it: it accepts no more, answers the requests that it has, closes the log and ends with 0.
"""

import argparse
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pylog.cli.arguments import Parser, add_directory, config_pair, examples, log_paths
from pylog.cli.opening import owned
from pylog.cli.output import plural, say
from pylog.nodes import MEMORY
from pylog.opening import load_parts, open_lazily
from pylog.server.listeners import DEFAULT_NAME, UNIX_NAME

if TYPE_CHECKING:
    from pylog.server.security import SecurityOptions

__all__ = ["add"]

LISTEN = "127.0.0.1:9092"
NAP_SECONDS = 3600.0
CLIENT_AUTH = ("none", "requested", "required")


def add(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Add `serve`."""
    parser = commands.add_parser(
        "serve", help="serve the log to Kafka clients",
        description="Serve the log to Kafka clients until Ctrl-C. The name of a listener is its security protocol: "
        "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. There are no ACLs: each client that is let in may read and change "
        "everything.",
        epilog=examples((
            "pylog serve --log data",
            "pylog serve --log :memory: --listen 127.0.0.1:0",
            "pylog serve --log data --listen SASL_SSL://:9093 --ssl-certificate-location server.pem --users users.txt",
            "pylog serve --log data --listen 0.0.0.0:9092 --advertise kafka:9092 --allow-plaintext",
            "pylog serve --log data --listen 127.0.0.1:9092 --listen unix:/run/pylog.sock",
        )),
    )  # fmt: skip
    add_directory(parser)
    parser.add_argument(
        "--listen", metavar="[NAME://]HOST:PORT", action="append",
        help=f"where to listen; port 0 takes one that is free; unix:PATH is a Unix socket; may be repeated with a name "
        f"each (default: {LISTEN})",
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
    _add_security(parser)
    parser.set_defaults(run=serve, parser=parser)


def _add_security(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("security")
    group.add_argument(
        "--users", metavar="FILE",
        help="a file with a line NAME:PASSWORD for each user of the SASL listeners; users of the log (`pylog user`) "
        "are let in besides, by SCRAM",
    )  # fmt: skip
    group.add_argument(
        "--ssl-certificate-location",
        metavar="FILE",
        help="the certificate of the TLS listeners, and those up to its root (PEM)",
    )
    group.add_argument("--ssl-key-location", metavar="FILE", help="its key, if that is in a file of its own")
    group.add_argument("--ssl-key-password-file", metavar="FILE", help="a file with the password of the key, if any")
    group.add_argument(
        "--ssl-ca-location", metavar="FILE", help="the roots of clients' certificates, which are required then (PEM)"
    )
    group.add_argument(
        "--ssl-client-auth",
        choices=CLIENT_AUTH,
        help="whether clients need a certificate (default: required with --ssl-ca-location)",
    )
    group.add_argument(
        "--allow-plaintext", action="store_true", help="let other hosts reach a listener without TLS, too"
    )


def _security(args: argparse.Namespace) -> "SecurityOptions":
    """The options that were given. Raises OSError, ValueError."""
    options: SecurityOptions = {"allow_plaintext": args.allow_plaintext}
    if args.users is not None:
        options["users"] = read_users(args.users)
    if args.ssl_certificate_location is not None:
        options["ssl_certificate_location"] = args.ssl_certificate_location
    if args.ssl_key_location is not None:
        options["ssl_key_location"] = args.ssl_key_location
    if args.ssl_key_password_file is not None:
        options["ssl_key_password"] = Path(args.ssl_key_password_file).read_text(encoding="utf-8").rstrip("\r\n")
    if args.ssl_ca_location is not None:
        options["ssl_ca_location"] = args.ssl_ca_location
    if args.ssl_client_auth is not None:
        options["ssl_client_auth"] = args.ssl_client_auth
    return options


def read_users(path: str) -> dict[str, str]:
    """The users in a file: a line NAME:PASSWORD each; empty lines and those that begin with # are left out.

    Raises OSError, ValueError.
    """
    users: dict[str, str] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not colon or not name or not password:
            raise ValueError(f"{path}: line {number} is not NAME:PASSWORD")
        if name in users:
            raise ValueError(f"{path}: line {number} names {name} a second time")
        users[name] = password
    return users


def _scheme(name: str) -> str:
    return "" if name in (DEFAULT_NAME, UNIX_NAME) else f"{name}://"


def serve(args: argparse.Namespace) -> int:
    """Run `serve`."""
    paths, options = log_paths(args), {"flush": args.flush, "config": dict(args.config)}
    security = _security(args)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    log = open_lazily(MEMORY, **options) if paths == [MEMORY] else owned(paths, **options)
    with log, log.serve(args.listen or LISTEN, advertise=args.advertise, **security) as server:
        try:
            # From this line on, a signal is how it ends.
            places = ", ".join(f"{_scheme(name)}{address}" for name, address in server.addresses.items())
            say(f"serving {', '.join(paths)} at {places}; Ctrl-C stops it")
            load_parts()
            while True:
                time.sleep(NAP_SECONDS)
        except KeyboardInterrupt:
            server.close()
    counts = server.counts
    say(f"stopped after {plural(counts.connections, 'connection')} and {plural(counts.requests, 'request')}")
    return 0
