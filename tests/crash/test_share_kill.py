from tests.crash.share_kill import run


def test_each_job_is_done_by_one_worker_whoever_is_killed() -> None:
    """A few of what `make share-kill` does five hundred times."""
    assert "killed" in run(2, seed=2)
