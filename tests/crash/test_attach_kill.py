from tests.crash.attach_kill import run


def test_nothing_is_lost_or_twice_when_owners_go() -> None:
    """A few of what `make attach-kill` does a thousand times."""
    assert "killed" in run(3, seed=2)
