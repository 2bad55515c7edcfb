"""`pylog ui`: pages to look at a log, in a browser.

    pylog: data is shown at http://127.0.0.1:8080/; Ctrl-C stops it            on stderr, when it is ready
    pylog: stopped

It only looks, beside an owner or without one, unless --write is given: then each change takes the log for its own time
alone, as other commands do. Needs the extra `ui`. SIGINT and SIGTERM stop it.
"""

import signal
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from pylog.cli import commands
from pylog.cli.interrupts import interrupted_later
from pylog.cli.opening import changing, looking, working
from pylog.cli.output import say
from pylog.cli.params import option
from pylog.cli.place import LogPlace
from pylog.files import DiskFiles
from pylog.handles.any_log import AnyLog
from pylog.log import load_parts

if TYPE_CHECKING:
    from pylog.ui.source import Source

__all__ = ["command"]

LISTEN = "127.0.0.1:8080"


@commands.command(
    "ui",
    short_help="show the log in a browser",
    examples=(
        "pylog ui --log data",
        "pylog ui --log data --write --listen 127.0.0.1:0",
        "pylog ui --bootstrap 127.0.0.1:9092",
    ),
)
@option(
    "--listen", metavar="HOST:PORT", default=LISTEN,
    help=f"where to listen; port 0 takes one that is free (default: {LISTEN})",
)  # fmt: skip
@option(
    "--write", "is_writable", is_flag=True,
    help="let topics and groups be changed, too, by a visitor with the token, which is in the address",
)  # fmt: skip
@option(
    "--allow-host", "hosts", metavar="NAME", multiple=True,
    help="a name under which it is reached, through a proxy say; may be repeated",
)  # fmt: skip
@option(
    "--allow-plaintext", is_flag=True,
    help="let other hosts reach it without TLS; every page takes the token then",
)  # fmt: skip
def command(place: LogPlace, listen: str, is_writable: bool, hosts: tuple[str, ...], allow_plaintext: bool) -> int:
    """Show the log in a browser: topics, records, groups, transactions, files, damage.

    Nothing is changed unless --write is given. It works beside the owner of the log; --bootstrap shows a server's log.
    """
    try:
        with interrupted_later():
            from pylog.ui.serving import bound, run
    except ImportError as error:
        raise ImportError(f"{error}: `pylog ui` needs its extra, pip install 'pylog-commitlog[ui]'") from None
    doors = {"is_writable": is_writable, "allow_plaintext": allow_plaintext}
    with looking(place) as log, bound(listen, hosts=hosts, **doors) as listening:
        words = f"{place} is shown at {listening.url}; Ctrl-C stops it"
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with interrupted_later():
            load_parts()
        # The server ends by itself at a signal, and raises it again then.
        with suppress(KeyboardInterrupt):
            run(_source(place, log, is_writable=is_writable), listening, partial(say, words))
    say("stopped")
    return 0


def _source(place: LogPlace, log: AnyLog, *, is_writable: bool) -> "Source":
    from pylog.ui.source import Source

    if place.servers is not None:
        return Source(str(place), log, change=(lambda: nullcontext(log)) if is_writable else None)
    change = partial(changing, place) if is_writable else None
    owner = partial(working, place, log)
    return Source(str(place), log, DiskFiles(read_only=True), tuple(place.paths), change, owner)
