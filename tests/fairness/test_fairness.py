"""The campaign `make fair` at its least: one small attack of a kind, and what is measured."""

from pathlib import Path

from fairness import batches, requests
from fairness.trial import trial
from support.raw_client import WireClient
from support.wire_requests import Requests


def test_an_attack_is_made_and_measured(tmp_path: Path) -> None:
    with trial(tmp_path, "pylog") as made:
        with WireClient(made.server.bootstrap_servers) as wire:
            topic_id, served = Requests(wire).topic_id("attacked"), wire.versions
        attacks = [
            next(one for one in requests.attacks("attacked", topic_id, served, 10_000) if "Metadata" in one.name),
            next(iter(batches.attacks())),
        ]
        for attack in attacks:
            found = made.measured(attack)
            assert found.error is None and found.waits.error is None
            assert found.traffic.sent > 0 and found.waits.ask > 0 and found.control.ask > 0
