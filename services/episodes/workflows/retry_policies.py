"""Timeouts and retry policies of an episode's activities.

No number of attempts ends an episode while a part of the platform is away: its own deadline does.
An error that names the time of the next attempt (`Retry-After` of a model engine) overrides the
intervals: see `episodes.workflows.activities`.
"""

from datetime import timedelta

from temporalio.common import RetryPolicy

# A worker that died with a workflow task in hand is replaced after this long.
TASK_TIMEOUT = timedelta(seconds=5)
# Long enough to outlast a restarted control plane, short enough that a lost
# worker is noticed soon; repeating a turn is free, so a false alarm costs little.
HEARTBEAT_TIMEOUT = timedelta(seconds=4)
TURN_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    backoff_coefficient=1.5,
    maximum_interval=timedelta(seconds=3),
)
FINISH_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10)
)
JUDGE_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    maximum_interval=timedelta(seconds=5),
)
JUDGE_TIMEOUT = timedelta(minutes=10)
# An answer that is not judged by then, all attempts together, stays unjudged.
JUDGE_TOTAL_TIMEOUT = timedelta(minutes=20)
TURN_MARGIN = timedelta(seconds=60)
FINISH_TIMEOUT = timedelta(seconds=60)
