from tests.crash.schedule_kill import run


def test_a_few_schedulers_go_and_each_job_comes_once() -> None:
    assert "jobs came once" in run(2)
