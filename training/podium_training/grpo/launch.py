"""`python -m podium_training.grpo.launch CONFIG.yaml`: the processes of a run on one machine.

torchrun starts them, as many as the variables PET_* say. Its own exit status is 1 whatever they
ended with; this one is theirs, so that who starts runs again can leave those that would fail again.
"""

import sys

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main as torchrun

from podium_training.grpo.ending import LASTING, PASSING, STREAM_ENDED


def main() -> int:
    """Exit status 0 when all processes ended well, else one of ending.py."""
    try:
        torchrun(["-m", "podium_training.grpo", *sys.argv[1:]])
    except ChildFailedError as error:
        # What ended first takes the others along, which say less.
        statuses = {failure.exitcode for failure in error.failures.values()}
        return next((each for each in (LASTING, STREAM_ENDED) if each in statuses), PASSING)
    except SignalException as signal:  # After the processes, which had it, too.
        sys.stderr.write(f"{signal}\n")
        return PASSING
    return 0


if __name__ == "__main__":
    sys.exit(main())
