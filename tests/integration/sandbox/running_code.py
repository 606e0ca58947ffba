"""Which processes run a model's code."""

from contextlib import suppress
from pathlib import Path

import psutil

from process_owner import Processes
from tool_adapters.sandbox.inside.supervisor import OOM_SCORE_ADJ


def running_code(own_processes: Processes) -> list[psutil.Process]:
    """Code goes first where memory ends, and anyone who may not read its name can see that."""
    return [each for each in own_processes("") if _goes_first(each.pid)]


def _goes_first(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == OOM_SCORE_ADJ
    return False
