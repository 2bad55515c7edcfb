"""Kafka's own `DumpLogSegments` as a function: files in, what it printed about them out, as values.

`make kafka` puts the tool's jars into build/kafka. One call starts one JVM (half a second), so give it all files of a
kind at once. Everything the tool says that is no plain line about a batch, a record or an index entry counts as a
complaint: mismatches (it prints them to stderr), batches with `isvalid: false`, bytes it could not read, exceptions.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

JARS = Path(__file__).parents[2] / "build" / "kafka"
TOOL = "org.apache.kafka.tools.DumpLogSegments"

BATCH = re.compile(
    rb"baseOffset: (?P<base_offset>-?\d+) lastOffset: (?P<last_offset>-?\d+) count: (?P<count>\S+) "
    rb"baseSequence: (?P<base_sequence>-?\d+) lastSequence: -?\d+ producerId: (?P<producer_id>-?\d+) "
    rb"producerEpoch: (?P<producer_epoch>-?\d+) partitionLeaderEpoch: (?P<leader_epoch>-?\d+) "
    rb"isTransactional: (?P<is_transactional>\w+) isControl: (?P<is_control>\w+) deleteHorizonMs: \S+ "
    rb"position: (?P<position>\d+) (?P<timestamp_type>\w+): (?P<max_timestamp>-?\d+) size: (?P<size>\d+) "
    rb"magic: (?P<magic>\d+) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: (?P<is_valid>\w+)"
)
RECORD = re.compile(
    rb"\| offset: (?P<offset>\d+) (?P<timestamp_type>\w+): (?P<timestamp>-?\d+) keySize: (?P<key_size>-?\d+) "
    rb"valueSize: (?P<value_size>-?\d+) sequence: -?\d+ headerKeys: \[(?P<header_keys>[^\]]*)\](?P<rest>.*)",
    re.DOTALL,
)
OFFSET_ENTRY = re.compile(rb"offset: (?P<offset>\d+) position: (?P<position>\d+)")
TIME_ENTRY = re.compile(rb"timestamp: (?P<timestamp>-?\d+) offset: (?P<offset>\d+)")
# Lines that say nothing about the file: its name, and producers and transactions, which nobody compares yet.
PLAIN = re.compile(
    rb"Log starting offset: |Snapshot end offset: |.* is empty\.$|.* passed sanity check\.$|producerId: |version: "
)
# The tool's own surprise about a segment that does not begin at 0.
NOISE = re.compile(r"Non-consecutive offsets in|\s*-1 is followed by \d+|$")
# Short lives: what starts quickly wins.
JAVA = [
    "java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
    "-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", f"{JARS}/*",
]  # fmt: skip
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


@dataclass(frozen=True, slots=True)
class Batch:
    base_offset: int
    last_offset: int
    count: int | None
    base_sequence: int
    producer_id: int
    producer_epoch: int
    leader_epoch: int
    is_transactional: bool
    is_control: bool
    position: int
    timestamp_type: str
    max_timestamp: int
    size: int
    magic: int
    codec: str
    crc: int


@dataclass(frozen=True, slots=True)
class Record:
    """A record as printed; key and value are its own bytes where those are UTF-8, else the printed text."""

    offset: int
    timestamp: int
    timestamp_type: str
    header_keys: tuple[str, ...]
    key: bytes | None
    value: bytes | None
    key_size: int
    value_size: int


@dataclass(slots=True)
class Dump:
    """What the tool said about one file."""

    path: str
    batches: list[Batch] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    offset_entries: list[tuple[int, int]] = field(default_factory=list)  # offset, position
    time_entries: list[tuple[int, int]] = field(default_factory=list)  # timestamp, offset
    complaints: list[str] = field(default_factory=list)


def missing() -> str | None:
    """Why the tool cannot run here, or None."""
    if shutil.which("java") is None:
        return "java is not on the PATH: Kafka's own tools cannot run (Java 17 is needed)"
    if not any(JARS.glob("kafka-tools-*.jar")):
        return f"Kafka's jars are not in {JARS.parent.name}/{JARS.name}: run `make kafka` first"
    return None


def dump(paths: Iterable[Path], *options: str) -> tuple[list[Dump], list[str]]:
    """Run the tool over files; gives what it said about each, in order, and everything it complained of.

    Options are the tool's: --index-sanity-check, --cluster-metadata-decoder, --print-data-log... Iteration is deep.
    """
    ran = run(paths, *options)
    dumps = parse(ran.stdout)
    complaints = [f"{one.path}: {words}" for one in dumps for words in one.complaints]
    complaints += [line for line in ran.stderr.decode(errors="replace").splitlines() if not NOISE.match(line)]
    if ran.returncode != 0:
        complaints.append(f"{TOOL} ended with exit code {ran.returncode}")
    return dumps, complaints


def run(paths: Iterable[Path], *options: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the tool over files; gives what it printed, as bytes."""
    names = ",".join(str(path) for path in paths)
    command = [*JAVA[:1], QUIET, *JAVA[1:], TOOL, "--deep-iteration", "--files", names, *options]
    return subprocess.run(command, capture_output=True, check=False, timeout=240, cwd=cwd)


def parse(printed: bytes) -> list[Dump]:
    """What `DumpLogSegments --deep-iteration` printed, as values: one `Dump` per file."""
    dumps: list[Dump] = []
    lines = printed.split(b"\n")
    lines.pop()  # what follows the last line end: nothing
    at = 0
    while at < len(lines):
        line, at = lines[at], at + 1
        if line.startswith(b"Dumping "):
            dumps.append(Dump(line[8:].decode()))
        elif not dumps:
            raise ValueError(f"not the output of {TOOL}: {line[:80]!r}")
        elif line.startswith(b"| offset: "):
            # A key or value may contain line ends: the sizes say how far it goes.
            while at < len(lines) and unfinished(line) and not lines[at].startswith((b"| offset: ", b"baseOffset: ")):
                line, at = line + b"\n" + lines[at], at + 1
            dumps[-1].records.append(record(line))
        else:
            other(dumps[-1], line)
    return dumps


def unfinished(line: bytes) -> bool:
    """Whether a printed record goes on in the next line. Invalid UTF-8 was printed as longer replacement characters."""
    found = matched(RECORD, line)
    rest, key_size, value_size = found["rest"], int(found["key_size"]), int(found["value_size"])
    if not rest.startswith((b" key: ", b" payload: ")):
        return False  # nothing printed, or a control record
    key = len(b" key: ") + key_size if key_size >= 0 else 0
    payload = rest.find(b" payload: ", key) if value_size >= 0 else key
    return payload < 0 or len(rest) < payload + (len(b" payload: ") + value_size if value_size >= 0 else 0)


def record(line: bytes) -> Record:
    found = matched(RECORD, line)
    rest, key_size, value_size = found["rest"], int(found["key_size"]), int(found["value_size"])
    key: bytes | None = None
    if rest.startswith(b" key: "):
        end = rest.find(b" payload: ", len(b" key: ") + key_size)
        end = end if end >= 0 else len(rest)
        key, rest = rest[len(b" key: ") : end], rest[end:]
    value = None
    if value_size >= 0 and rest:
        value = re.sub(rb"^ \w+: ", b"", rest, count=1)  # payload, or the name of a control record
    names = tuple(found["header_keys"].decode().split(",")) if found["header_keys"] else ()
    return Record(
        offset=int(found["offset"]),
        timestamp=int(found["timestamp"]),
        timestamp_type=found["timestamp_type"].decode(),
        header_keys=names,
        key=key,
        value=value,
        key_size=key_size,
        value_size=value_size,
    )


def other(into: Dump, line: bytes) -> None:
    """A line about a batch or an index entry; any other is a complaint."""
    if found := BATCH.fullmatch(line):
        numbers = found.groupdict()
        if numbers.pop("is_valid") != b"true":
            into.complaints.append(f"a batch that is not valid: {line.decode()}")
        into.batches.append(Batch(**{name: value_of(name, text) for name, text in numbers.items()}))
    elif found := OFFSET_ENTRY.fullmatch(line):
        into.offset_entries.append((int(found["offset"]), int(found["position"])))
    elif found := TIME_ENTRY.fullmatch(line):
        into.time_entries.append((int(found["timestamp"]), int(found["offset"])))
    elif line and not PLAIN.match(line):
        into.complaints.append(line.decode(errors="replace"))


def value_of(name: str, text: bytes) -> object:
    if name in {"timestamp_type", "codec"}:
        return text.decode()
    if name.startswith("is_"):
        return text == b"true"
    return None if text == b"null" else int(text)


def matched(pattern: re.Pattern[bytes], line: bytes) -> re.Match[bytes]:
    found = pattern.fullmatch(line)
    if found is None:
        raise ValueError(f"the tool printed a line this parser does not know: {line[:200]!r}")
    return found
