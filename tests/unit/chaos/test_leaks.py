import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil

from chaos.leaks import MIB, Taken, adopt_orphans, left_behind, orphans

START = Taken(0.0, 0, 100 * MIB, MIB, 10 * MIB, 40, 80, 60, 2, 7, 0)


def test_files_locks_and_transactions_that_stay_are_named() -> None:
    assert left_behind(START, replace(START, at_s=60.0, memory_bytes=200 * MIB)) == []
    last = replace(START, temporary_files=4, file_locks=8, old_transactions=1)
    files, locks, open_ones = left_behind(START, last)
    assert files == "4 temporary files, 2 before"
    assert locks == "8 file locks are held, 7 before"
    assert "1 transactions" in open_ones


def test_a_process_whose_parent_is_gone_is_found() -> None:
    adopt_orphans()
    before = {each.pid for each in psutil.Process().children()}
    program = "import subprocess; print(subprocess.Popen(['sleep', '600'], stdout=2).pid)"
    parent = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, text=True
    )
    pid = int(parent.stdout)
    try:
        assert [each.pid for each in orphans(before)] == [pid]
    finally:
        os.kill(pid, signal.SIGKILL)
    while orphans(before):
        time.sleep(0.01)
