"""How long an episode's activities may take, and how often they are tried.

An error that says when to try again (`Retry-After` of a model engine) overrides the intervals:
see `episodes.temporal.activity_errors`.
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
    maximum_attempts=50,
)
FINISH_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10)
)
JUDGE_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    maximum_interval=timedelta(seconds=5),
    maximum_attempts=10,
)
JUDGE_TIMEOUT = timedelta(minutes=10)
TURN_MARGIN = timedelta(seconds=60)
FINISH_TIMEOUT = timedelta(seconds=60)
# A call that waits to become an episode longer than this is a failure the model sees.
ADMISSION_TIMEOUT = timedelta(seconds=60)
