"""Certificates for tests, made by the `openssl` command: an authority, a server at 127.0.0.1, and clients.

Without that command the tests are skipped, and say so.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["Authority", "authority"]

EXTENSIONS = "basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n"


class Authority:
    """An authority and the certificates that it has signed, as PEM files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cafile = str(folder / "ca.pem")
        self._key = folder / "ca.key"
        self._openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-keyout", self._key, "-out", self.cafile, "-subj", "/CN=Authority of the tests",
        )  # fmt: skip

    def signed(self, name: str, subject: str, extensions: str = EXTENSIONS) -> tuple[str, str]:
        """A certificate and its key, as the paths of their files."""
        (self.folder / "extensions").write_text(extensions)
        key, request, certificate = (self.folder / f"{name}.{kind}" for kind in ("key", "csr", "pem"))
        self._openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
            "-out", request, "-subj", subject,
        )  # fmt: skip
        self._openssl(
            "x509", "-req", "-in", request, "-CA", self.cafile, "-CAkey", self._key, "-CAcreateserial", "-days", "2",
            "-extfile", self.folder / "extensions", "-out", certificate,
        )  # fmt: skip
        return str(certificate), str(key)

    @property
    def server(self) -> dict[str, str]:
        """The options of a server with a certificate of its own."""
        certfile, keyfile = self.folder / "server.pem", self.folder / "server.key"
        if not certfile.exists():
            self.signed("server", "/O=Example/CN=localhost")
        return {"ssl_certificate_location": str(certfile), "ssl_key_location": str(keyfile)}

    def _openssl(self, *words: str | Path) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=240)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of this process."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl command to make certificates with: TLS is not tested")
    return Authority(tmp_path_factory.mktemp("certificates"))
