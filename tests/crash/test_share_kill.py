from tests.crash.share_kill import run

SERVED_SEED = 4
"""By it the server is killed."""


def test_each_job_is_done_by_one_worker_whoever_is_killed() -> None:
    """A few of what `make share-kill` does five hundred times."""
    assert "killed" in run(2, seed=2)


def test_each_job_is_done_by_one_client_of_a_server_that_is_killed() -> None:
    assert "owners killed" in run(2, seed=SERVED_SEED, is_served=True)
