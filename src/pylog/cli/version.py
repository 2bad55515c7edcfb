"""`pylog version`: the version, and which kernel, codecs and extras this installation has.

The package's metadata says which extras there are and what they need. None of that is imported, so the command is quick
and works with a broken extra.
"""

import importlib.util
import platform
import re
from collections.abc import Iterator, Sequence
from importlib import metadata

import pylog
from pylog import kernel
from pylog.cli import commands
from pylog.cli.output import print_line
from pylog.cli.params import json_option
from pylog.cli.place import LogPlace
from pylog.protocol.compression import Codec
from pylog.runtime.json_lines import json_line

__all__ = ["command"]

CODECS = {Codec.SNAPPY: "cramjam", Codec.LZ4: "lz4", Codec.ZSTD: "zstandard"}
"""The codecs that need a package, and which one."""
DISTRIBUTION = "pylog-commitlog"
FOR_DEVELOPERS = ("bench", "conformance", "dev", "docs")


def extras() -> dict[str, dict[str, str | None]]:
    """The distributions that each extra needs, with their versions; None for one that is not installed. Empty where
    pylog runs from its sources and is not installed.
    """
    try:
        found = metadata.metadata(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return {}
    needs = needs_of(found.get_all("Provides-Extra") or [], found.get_all("Requires-Dist") or [])
    return {extra: {name: installed(name) for name in names} for extra, names in needs.items()}


def needs_of(extras: Sequence[str], requirements: Sequence[str]) -> dict[str, list[str]]:
    """The distributions that each extra of users needs, those of the extras that it stands on among them.

    `requirements` are like `pyarrow>=15; extra == "arrow"` and `pylog-commitlog[arrow]; extra == "pandas"`.
    """
    direct: dict[str, list[tuple[str, list[str]]]] = {extra: [] for extra in extras}
    for requirement in requirements:
        parts = re.match(r"""([\w.-]+)\s*(?:\[([^]]*)])?.*;.*extra\s*==\s*["']([^"']+)""", requirement)
        if parts is not None:
            direct[parts[3]].append((parts[1], re.findall(r"[\w.-]+", parts[2] or "")))

    def names(extra: str) -> Iterator[str]:
        for name, others in direct[extra]:
            if name == DISTRIBUTION:
                for other in others:
                    yield from names(other)
            else:
                yield name

    return {extra: sorted(set(names(extra))) for extra in sorted(extras) if extra not in FOR_DEVELOPERS}


def installed(distribution: str) -> str | None:
    """The version of a distribution, None where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


@commands.command("version", short_help="show the version, the kernel, the codecs and the extras")
@json_option
def command(place: LogPlace, as_json: bool) -> int:
    """Show the version, the kernel, the codecs and the extras."""
    codecs = {codec.name.lower(): codec not in CODECS or _is_there(CODECS[codec]) for codec in Codec}
    found = extras()
    python = (
        f"{platform.python_version()} ({platform.python_implementation()}, {platform.system()} {platform.machine()})"
    )
    if as_json:
        line = {
            "version": pylog.__version__,
            "python": python,
            "kernel": kernel.NAME,
            "why_pure": kernel.WHY_PURE,
            "codecs": codecs,
            "extras": found,
        }
        print_line(json_line(line))
        return 0
    print_line(f"pylog {pylog.__version__}")
    print_line(f"  python  {python}")
    why = f" (Python alone, the slow one: {kernel.WHY_PURE})" if kernel.WHY_PURE else ""
    print_line(f"  kernel  {kernel.NAME}{why}")
    missing = [name for name, there in codecs.items() if not there]
    there = ", ".join(name for name, there in codecs.items() if there)
    print_line(f"  codecs  {there}" + (f"; missing: {', '.join(missing)}" if missing else ""))
    width = max(map(len, found), default=0)
    for number, (name, needs) in enumerate(found.items()):
        print_line(f"  {'extras' if number == 0 else '      '}  {name.ljust(width)}  {_extra(needs)}")
    return 0


def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _extra(needs: dict[str, str | None]) -> str:
    missing = [name for name, version in needs.items() if version is None]
    if missing:
        return f"not there: pip install {' '.join(missing)}"
    return ", ".join(f"{name} {version}" for name, version in needs.items())
