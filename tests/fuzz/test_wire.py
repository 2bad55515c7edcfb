"""A small share of `make wire-fuzz`."""

import pytest

from wirefuzz import campaign, decodes


def test_damaged_messages_are_decoded_or_refused() -> None:
    counts = decodes.run(4000, 7)
    assert counts["refused"] > 1000 < counts["decoded"]


@pytest.mark.timeout(120)
def test_damaged_frames_end_no_more_than_their_connection() -> None:
    found = campaign.sent(1000, 7)
    assert found.failures == []
    assert found.counts.total() >= 1000
