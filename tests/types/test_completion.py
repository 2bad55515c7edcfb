"""What an editor offers while one types: asked of pyright's language server, as an editor asks it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None, reason="PYRIGHT WAS NOT RUN: it needs node, which is not installed"
)
PROGRAM = "import pylog\n\nwith pylog.open(':memory:') as log:\n    "


class Editor:
    """A client of the language server, in an empty folder."""

    def __init__(self, folder: Path) -> None:
        (folder / "pyrightconfig.json").write_text(json.dumps({"venvPath": "", "pythonVersion": "3.11"}))
        self._server = subprocess.Popen(
            [Path(sys.executable).with_name("pyright-langserver"), "--stdio"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        self._folder = folder
        self._number = 0
        self.ask(
            "initialize", processId=None, rootUri=folder.as_uri(), capabilities={"workspace": {"configuration": True}}
        )
        self._send({"method": "initialized", "params": {}})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.kill()
        self._server.communicate()

    def offers(self, typed: str) -> set[str]:
        """What is offered behind `typed`, which stands in the block of an open log."""
        self._number += 1
        where = (self._folder / f"program{self._number}.py").as_uri()
        lines = (PROGRAM + typed).splitlines()
        document = {"uri": where, "languageId": "python", "version": 1, "text": PROGRAM + typed}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        end = {"line": len(lines) - 1, "character": len(lines[-1])}
        found = self.ask("textDocument/completion", textDocument={"uri": where}, position=end)
        return {item["label"] for item in found["items"]}

    def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        for message in self._messages():
            if message.get("id") == self._number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            if message.get("method") == "workspace/configuration":
                settings = [{"pythonPath": sys.executable} for _ in message["params"]["items"]]
                self._send({"id": message["id"], "result": settings})
            elif "id" in message and "method" in message:
                self._send({"id": message["id"], "result": None})
        raise AssertionError("the server has ended")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._server.stdin.flush()

    def _messages(self) -> Iterator[dict[str, Any]]:
        out = self._server.stdout
        assert out is not None
        while header := out.readline():
            while (line := out.readline()).strip():
                header = line if line.lower().startswith(b"content-length") else header
            yield json.loads(out.read(int(header.split(b":")[1])))


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    with Editor(tmp_path_factory.mktemp("editor")) as editor:
        yield editor


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("log.producer(", {"acks=", "linger_ms=", "compression_type=", "value_serializer=", "transactional_id="}),
        ("log.consumer('t', ", {"group_id=", "auto_offset_reset=", "isolation_level=", "value_deserializer="}),
        ("log.producer(compression_type='", {"'zstd'", "'lz4'", "'none'"}),
        ("log.create_topic('t', config={'", {"'cleanup.policy'", "'retention.ms'", "'pylog.full.policy'"}),
        ("pylog.connect('host:9092', ", {"security_protocol=", "sasl_username=", "client_id="}),
        ("pylog.", {"open", "connect", "TopicPartition", "errors", "TopicOptions"}),
        ("next(iter(log.consumer('t', value_deserializer=int))).", {"value", "key", "offset", "headers"}),
    ],
)
def test_an_editor_offers_what_can_be_typed_here(editor: Editor, typed: str, offered: set[str]) -> None:
    assert offered <= editor.offers(typed)
