from tool_adapters.sandbox.convert import WALL_TIME_MAX_S, job_from_proto, job_to_proto
from tool_adapters.sandbox.limits import Limits
from tool_adapters.sandbox.runner import Job


def test_code_of_a_tool_that_has_longer_runs_as_long_as_it_may() -> None:
    sent = job_to_proto(Job("6 * 7", False, Limits(wall_time_s=3_599.5)))
    assert job_from_proto(sent).limits.wall_time_s == WALL_TIME_MAX_S


def test_a_short_run_stays_as_short() -> None:
    sent = job_to_proto(Job("6 * 7", False, Limits(wall_time_s=9.5)))
    assert job_from_proto(sent).limits.wall_time_s == 9.5
