from contextlib import suppress
from pathlib import Path

import psutil

from process_owner import Processes
from tool_adapters.sandbox.inside.supervisor import OOM_SCORE_ADJ


def running_code(own_processes: Processes) -> list[psutil.Process]:
    """Code has the highest out-of-memory score, which even a process that may not read its name can
    see.
    """
    return [each for each in own_processes("") if _goes_first(each.pid)]


def _goes_first(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == OOM_SCORE_ADJ
    return False
