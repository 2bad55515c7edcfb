"""Kafka Connect, standalone: lines of a file become records, and records lines of another file."""

from pathlib import Path

from conformance.programs.conftest import Begin
from conformance.wire.conftest import Topics
from conformance.wire.servers import Server
from support.clients.values import until

CONNECT = "org.apache.kafka.connect.cli.ConnectStandalone"
SECONDS = 90.0


def properties(path: Path, **values: object) -> Path:
    path.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in values.items()))
    return path


def test_lines_go_through_a_topic_from_file_to_file(
    begin: Begin, server: Server, topics: Topics, tmp_path: Path
) -> None:
    topic, name = topics.create(), topics.name()
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    strings = "org.apache.kafka.connect.storage.StringConverter"
    worker = properties(
        tmp_path / "worker.properties", bootstrap_servers=server.bootstrap_servers, key_converter=strings,
        value_converter=strings, offset_storage_file_filename=tmp_path / "offsets", offset_flush_interval_ms=200,
        listeners="http://127.0.0.1:0",
    )  # fmt: skip
    kinds = "org.apache.kafka.connect.file.FileStream{}Connector"
    reads = properties(
        tmp_path / "source.properties", name=f"{name}-in", connector_class=kinds.format("Source"), tasks_max=1,
        file=source, topic=topic,
    )  # fmt: skip
    writes = properties(
        tmp_path / "sink.properties", name=f"{name}-out", connector_class=kinds.format("Sink"), tasks_max=1,
        file=sink, topics=topic,
    )  # fmt: skip

    # The second worker goes on where the first one was: at its offset in the file, and in its group.
    for text in ("one two", "one two three"):
        source.write_text("".join(f"{line}\n" for line in text.split()))
        with begin(CONNECT, worker, reads, writes) as process:
            until(lambda text=text: sink.exists() and sink.read_text().split() == text.split(), patience=SECONDS)  # type: ignore[misc]
            process.terminate()
            process.wait(SECONDS)
    assert sink.read_text().split() == ["one", "two", "three"]
