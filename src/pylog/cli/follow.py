"""`pylog follow`: a copy of a leader's topics, kept up to date until Ctrl-C.

    pylog: following 127.0.0.1:9092 into copy, topics flights, shop; Ctrl-C ends it          on stderr
    flights-0      offset 1,204,113   leader 1,204,200   87 behind   12,034 records/s         on a terminal, live
    pylog: stopped: 3 partitions, 0 records behind

Where stderr is no terminal, a line says so when the copy has caught up, and what goes wrong is said as it happens.
"""

import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pylog.cli import commands
from pylog.cli.arguments import natural
from pylog.cli.interrupts import interrupted_later
from pylog.cli.opening import owned
from pylog.cli.output import is_terminal, live_text, rate_text, say
from pylog.cli.params import argument, config_pair, option
from pylog.cli.place import LogPlace, keep, keep_configs
from pylog.log import load_parts
from pylog.record import TopicPartition
from pylog.runtime.words import count_text, plural

if TYPE_CHECKING:
    from pylog.handles.following import Following, ReplicaLag

__all__ = ["command"]

LOOK_SECONDS = 0.5
NODE_ID = 2
META_PROPERTIES = "meta.properties"
ROWS_MAX = 30

Lags = Mapping[TopicPartition, "ReplicaLag"]


@commands.command(
    "follow",
    on_files=True,
    short_help="copy a leader's topics, and keep up with it",
    examples=(
        "pylog follow --log copy --from 127.0.0.1:9092",
        "pylog follow --log copy --from 127.0.0.1:9092 flights shop",
        "pylog follow --log copy --from kafka:9093 --command-config client.properties flights",
    ),
)
@argument("topics", "[TOPIC...]", "the topics (default: all, and those to come)", nargs=-1)
@option("--from", "leader", metavar="HOST:PORT", required=True, help="the leader; several nodes with commas")
@option(
    "--command-config", metavar="FILE", type=click.Path(), expose_value=False, callback=keep,
    help="lines of configs for the connection: security.protocol=SASL_SSL, sasl.mechanism=..., sasl.username=...",
)  # fmt: skip
@option(
    "-X", "client_configs", metavar="NAME=VALUE", type=config_pair, multiple=True, expose_value=False,
    callback=keep_configs, help="one such config; may be repeated",
)  # fmt: skip
@option(
    "--node-id", type=natural, metavar="N",
    help=f"the id of this node, which no node there has (default: the directory's; for a new one {NODE_ID})",
)  # fmt: skip
def command(place: LogPlace, topics: tuple[str, ...], leader: str, node_id: int | None) -> int:
    """Copy topics of a pylog server, or of a Kafka cluster, into a log, and keep up until Ctrl-C.

    The copy has the same offsets, ids and configs, and the same files, byte for byte, where the leader is a pylog and
    nothing was cleaned. Started again it goes on. To let the copy take over, stop this and call Log.lead.
    """
    paths = place.paths
    is_new = not (Path(paths[0]) / META_PROPERTIES).exists()
    node_id = NODE_ID if node_id is None and is_new else node_id
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with owned(paths, node_id=node_id) as log:
        following = log.follow(leader, topics or None, config=place.properties())
        with suppress(KeyboardInterrupt):
            # From this line on, a signal is how it ends.
            named = f", topics {', '.join(topics)}" if topics else ""
            say(f"following {leader} into {', '.join(paths)}{named}; Ctrl-C ends it")
            with interrupted_later():
                load_parts()
            (_show if is_terminal(sys.stderr) else _wait)(following)
        lags = following.lag()
    behind = sum(max(0, one.lag) for one in lags.values())
    say(f"stopped: {plural(len(lags), 'partition')}, {plural(behind, 'record')} behind")
    return 0


def _wait(following: "Following") -> None:
    """Say when the copy has caught up for the first time."""
    was_said = False
    while True:
        lags = following.lag()
        if not was_said and lags and all(one.lag == 0 and one.error is None for one in lags.values()):
            was_said = True
            say(f"caught up: {plural(len(lags), 'partition')}")
        time.sleep(LOOK_SECONDS)


def _show(following: "Following") -> None:
    """Show how far each partition is, live."""
    from rich.console import Console
    from rich.live import Live

    before, since = following.lag(), time.monotonic()
    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        while True:
            time.sleep(LOOK_SECONDS)
            lags, now = following.lag(), time.monotonic()
            live.update(live_text(lines(lags, before, round((now - since) * 1000))), refresh=True)
            before, since = lags, now


def lines(lags: Lags, before: Lags, elapsed_ms: int) -> list[str]:
    """A line for each partition; those that are behind come first, where there are many."""
    ordered = sorted(lags, key=lambda key: (lags[key].error is None, -lags[key].lag, key))[:ROWS_MAX]
    width = max((len(f"{key.topic}-{key.partition}") for key in ordered), default=0)
    found = [_line(f"{key.topic}-{key.partition}".ljust(width), lags[key], before.get(key), elapsed_ms)
             for key in ordered]  # fmt: skip
    return [*found, f"and {len(lags) - len(ordered)} more"] if len(lags) > len(ordered) else found


def _line(name: str, lag: "ReplicaLag", before: "ReplicaLag | None", elapsed_ms: int) -> str:
    if lag.error is not None:
        return f"{name}  offset {count_text(lag.next_offset)}  {lag.error}"
    come = max(0, lag.next_offset - before.next_offset) if before is not None else 0
    leader = f"leader {count_text(lag.leader_end)}  {count_text(lag.lag)} behind" if lag.lag >= 0 else "waiting"
    return f"{name}  offset {count_text(lag.next_offset)}  {leader}  {rate_text(come, elapsed_ms)}"
