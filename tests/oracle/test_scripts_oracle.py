"""Kafka's own scripts of partition log operations, replayed: the same results, the same files."""

import base64
import gzip
import json
import uuid
from pathlib import Path

import pytest

from .scripts import Replay

pytestmark = pytest.mark.oracle


def test_kafkas_scripts_replayed_give_the_same_logs(facts: Path) -> None:
    """All but the cleanings, for which see test_cleaner_oracle."""
    data = json.loads(gzip.decompress((facts / "storage.json.gz").read_bytes()))
    topic_id = uuid.UUID(bytes=base64.urlsafe_b64decode(data["topic_id"] + "=="))
    scripts = [script for script in data["scripts"] if not any(op["op"] == "clean" for op in script["ops"])]
    assert scripts
    differences = [difference for script in scripts for difference in Replay(script, topic_id).run()]
    assert differences == []
