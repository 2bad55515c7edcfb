"""What clients ask of a Confluent Schema Registry, answered from any `SchemaRegistry`."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from pylog.errors import IncompatibleSchema, SchemaNotFound
from pylog.serde import Schema, SchemaRegistry


@contextmanager
def served(registry: SchemaRegistry, login: str | None = None) -> Iterator[str]:
    """The URL of a server. `login`: the value of the header that it asks for."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self, code: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def handle_path(self, body: dict[str, Any] | None) -> None:
            if login is not None and self.headers["Authorization"] != login:
                self.answer(401, {"error_code": 401, "message": "Unauthorized"})
                return
            try:
                self.answer(
                    200, answered(registry, [unquote(x) for x in urlsplit(self.path).path.split("/")[1:]], body)
                )
            except SchemaNotFound as error:
                self.answer(404, {"error_code": 40403, "message": str(error)})
            except IncompatibleSchema as error:
                self.answer(409, {"error_code": 409, "message": str(error)})

        def do_GET(self) -> None:
            self.handle_path(None)

        def do_POST(self) -> None:
            self.handle_path(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_PUT(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def answered(registry: SchemaRegistry, path: list[str], body: dict[str, Any] | None) -> dict[str, Any]:
    """The answer to a request."""
    match path:
        case ["config", *subject] if body is not None:
            registry.set_compatibility(body["compatibility"], *subject)
            return body
        case ["config", *subject]:
            return {"compatibilityLevel": registry.compatibility(*subject)}
        case ["schemas", "ids", number]:
            return registry.by_id(int(number)).to_json()
        case ["subjects", subject, "versions"] if body is not None:
            return {"id": registry.register(subject, Schema.from_json(body))}
        case ["subjects", subject, "versions", version]:
            found = registry.version(subject, None if version == "latest" else int(version))
        case ["subjects", subject] if body is not None:
            found = registry.version(subject)
            if found.schema != Schema.from_json(body):
                raise SchemaNotFound(subject)
        case _:
            raise SchemaNotFound(f"nothing is at {path}")
    return {"subject": found.subject, "version": found.version, "id": found.id, **found.schema.to_json()}
