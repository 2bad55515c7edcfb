"""`pylog serve`: the log as a server for every Kafka client.

    pylog: serving data at 127.0.0.1:9092; Ctrl-C stops it            on stderr, when clients can connect
    pylog: stopped after 3 connections and 1,204 requests

With --metrics Prometheus reads the numbers of the log and of the server over HTTP. With --schema-registry clients find
schemas as in Confluent's registry.

SIGINT and SIGTERM stop it: it accepts no more, answers the requests that it has, closes the log and ends with 0.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from pylog.broker.nodes import MEMORY
from pylog.cli import commands
from pylog.cli import completion as complete
from pylog.cli.interrupts import interrupted_later
from pylog.cli.opening import owned
from pylog.cli.output import say
from pylog.cli.params import config_pair, option
from pylog.cli.place import LogPlace, text_lines
from pylog.log import load_parts, open_lazily
from pylog.metrics import prometheus
from pylog.runtime.words import plural
from pylog.server.listeners import DEFAULT_NAME, UNIX_NAME, ListenAddress, parse_address
from pylog.server.security import CLIENT_AUTH

if TYPE_CHECKING:
    from pylog.log import Log
    from pylog.server.security import SecurityOptions

__all__ = ["command", "read_users"]

F = TypeVar("F", bound=Callable[..., object])
Flush = Literal["sync", "interval", "none"]

LISTEN = "127.0.0.1:9092"
NAP_SECONDS = 1.0
"""How long a signal may go unseen that comes as a nap begins, or that another thread is given: it ends no nap."""


def _security_options(function: F) -> F:
    """Give the command the options of its listeners."""
    for decorate in reversed((
        _secured(
            "--users", "users_path", metavar="FILE", type=click.Path(),
            help="a file with a line NAME:PASSWORD for each user of the SASL listeners; users of the log (`pylog "
            "user`) are let in besides, by SCRAM",
        ),
        _secured(
            "--ssl-certificate-location", metavar="FILE", type=click.Path(),
            help="the certificate of the TLS listeners, and those up to its root (PEM)",
        ),
        _secured(
            "--ssl-key-location", metavar="FILE", type=click.Path(),
            help="its key, if that is in a file of its own",
        ),
        _secured(
            "--ssl-key-password-file", metavar="FILE", type=click.Path(),
            help="a file with the password of the key, if any",
        ),
        _secured(
            "--ssl-ca-location", metavar="FILE", type=click.Path(),
            help="the roots of clients' certificates, which are required then (PEM)",
        ),
        _secured(
            "--ssl-client-auth", type=click.Choice(CLIENT_AUTH),
            help="whether clients need a certificate (default: required with --ssl-ca-location)",
        ),
        _secured(
            "--acls", "goes_by_acls", is_flag=True,
            help="let clients do what ACLs allow (`pylog acl`), and principals of super.users everything",
        ),
        _secured("--allow-plaintext", is_flag=True, help="let other hosts reach a listener without TLS, too"),
    )):  # fmt: skip
        function = decorate(function)
    return function


def _secured(*names: str, **settings: object) -> Callable[[F], F]:
    return option(*names, section="security", **settings)


@commands.command(
    "serve",
    on_files=True,
    short_help="serve the log to Kafka clients",
    examples=(
        "pylog serve --log data",
        "pylog serve --log :memory: --listen 127.0.0.1:0",
        "pylog serve --log data --listen SASL_SSL://:9093 --ssl-certificate-location server.pem --users users.txt",
        "pylog serve --log data --listen SASL_PLAINTEXT://127.0.0.1:9092 --acls -c super.users=User:root",
        "pylog serve --log data --listen 0.0.0.0:9092 --advertise kafka:9092 --allow-plaintext",
        "pylog serve --log data --listen 127.0.0.1:9092 --listen unix:/run/pylog.sock",
        "pylog serve --log data --metrics 127.0.0.1:9308",
        "pylog serve --log data --schema-registry 127.0.0.1:8081",
    ),
)
@option(
    "--listen", metavar="[NAME://]HOST:PORT", multiple=True,
    help=f"where to listen; port 0 takes one that is free; unix:PATH is a Unix socket; may be repeated with a name "
    f"each (default: {LISTEN})",
)  # fmt: skip
@option(
    "--advertise", metavar="[NAME://]HOST:PORT", multiple=True,
    help="what clients of that listener are told to connect to; needed where it is 0.0.0.0, as in a container",
)  # fmt: skip
@option(
    "--flush", type=click.Choice(("sync", "interval", "none")),
    help="when records are durable: before they are acknowledged (sync, the default on disk), within a second, or "
    "when the system pleases",
)  # fmt: skip
@option(
    "--config", "-c", "configs", type=config_pair, multiple=True, metavar="NAME=VALUE",
    help="a config of the node, under Kafka's name; may be repeated: num.partitions=3",
    shell_complete=complete.node_configs,
)  # fmt: skip
@option(
    "--metrics", "metrics_at", metavar="HOST:PORT",
    help="where Prometheus reads metrics, at /metrics; needs prometheus-client",
)  # fmt: skip
@option(
    "--schema-registry", "registry_at", metavar="HOST:PORT",
    help="where clients find schemas, as in Confluent's Schema Registry; they are in the topic _schemas",
)  # fmt: skip
@_security_options
def command(
    place: LogPlace, listen: tuple[str, ...], advertise: tuple[str, ...], flush: Flush | None,
    configs: tuple[tuple[str, str], ...], metrics_at: str | None, registry_at: str | None, **given: Any,
) -> int:  # fmt: skip
    """Serve the log to Kafka clients until Ctrl-C.

    The name of a listener is its security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Without --acls each
    client that is let in may read and change everything.
    """
    paths = place.paths
    options: dict[str, Any] = {"flush": flush, "config": dict(configs)}
    security = _security(**given)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    log = open_lazily(MEMORY, **options) if paths == [MEMORY] else owned(paths, **options)
    with (
        log,
        _registry_served(registry_at, log, allow_plaintext=given["allow_plaintext"]) as registry,
        log.serve(list(listen) or LISTEN, advertise=list(advertise) or None, **security) as server,
        _metrics_served(metrics_at, log) as metrics,
    ):
        try:
            # From this line on, a signal is how it ends.
            places = ", ".join(f"{_scheme(name)}{address}" for name, address in server.addresses.items())
            say(f"serving {', '.join(paths)} at {places}{registry}{metrics}; Ctrl-C stops it")
            with interrupted_later():
                load_parts()
            while True:
                time.sleep(NAP_SECONDS)
        except KeyboardInterrupt:
            server.close()
    counts = server.counts
    say(f"stopped after {plural(counts.connections, 'connection')} and {plural(counts.requests, 'request')}")
    return 0


@contextmanager
def _registry_served(text: str | None, log: "Log", *, allow_plaintext: bool) -> Iterator[str]:
    """Serve the schemas of a log over HTTP; gives the words for the address. Raises ValueError, OSError."""
    if text is None:
        yield ""
        return
    from pylog.schema_registry import SchemaRegistryServer

    with SchemaRegistryServer(log, text, allow_plaintext=allow_plaintext) as registry:
        yield f", schemas at {registry.url}"


@contextmanager
def _metrics_served(text: str | None, log: "Log") -> Iterator[str]:
    """Serve the metrics of a log over HTTP; gives what is said of it. Raises ValueError, OSError, ImportError."""
    if text is None:
        yield ""
        return
    address = parse_address(text)
    if not isinstance(address, ListenAddress):
        raise ValueError(f"--metrics {text}: Prometheus reads from HOST:PORT")
    collector = prometheus(log)
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(collector)
    server, thread = start_http_server(address.port, address.host, registry)
    try:
        yield f", metrics at http://{address.with_port(server.server_port)}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _security(
    *, users_path: str | None, ssl_certificate_location: str | None, ssl_key_location: str | None,
    ssl_key_password_file: str | None, ssl_ca_location: str | None,
    ssl_client_auth: Literal["none", "requested", "required"] | None, allow_plaintext: bool, goes_by_acls: bool,
) -> "SecurityOptions":  # fmt: skip
    """The options that were given. Raises OSError, ValueError."""
    options: SecurityOptions = {"allow_plaintext": allow_plaintext, "authorizer": goes_by_acls}
    if users_path is not None:
        options["users"] = read_users(users_path)
    if ssl_certificate_location is not None:
        options["ssl_certificate_location"] = ssl_certificate_location
    if ssl_key_location is not None:
        options["ssl_key_location"] = ssl_key_location
    if ssl_key_password_file is not None:
        options["ssl_key_password"] = Path(ssl_key_password_file).read_text(encoding="utf-8").rstrip("\r\n")
    if ssl_ca_location is not None:
        options["ssl_ca_location"] = ssl_ca_location
    if ssl_client_auth is not None:
        options["ssl_client_auth"] = ssl_client_auth
    return options


def read_users(path: str) -> dict[str, str]:
    """The users in a file: a line NAME:PASSWORD each; empty lines and those that begin with # are left out.

    Raises OSError, ValueError.
    """
    users: dict[str, str] = {}
    for number, line in enumerate(text_lines(path), 1):
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
