import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psutil
import pytest

from chaos.invariants import Bill, Call, Charge, Observed, Record, checked, merged
from chaos.leaks import (
    MEASURES_MIN,
    MIB,
    Taken,
    adopt_orphans,
    grown,
    growth_table,
    left_behind,
    orphans,
)
from chaos.plan import Fault, Round
from chaos.rounds import Outcome, table

MODEL_KEY, TOOL_KEY = "e1/1/model/0", "e1/1/tool/0"
TOKENS = (100, 20)
MODEL_COST, TOOL_COST = Decimal("0.000024"), Decimal("0.000001")
MODEL_CHARGE = Charge("e1", MODEL_KEY, MODEL_COST, "chatcmpl-1", TOKENS)
RECORD = Record(
    "e1:1",
    "e1",
    "ANSWERED",
    MODEL_COST + TOOL_COST,
    (Call(TOOL_KEY, "place_order", order="tea"),),
)
BROKEN_CALL = Call("e1/1/tool/1", "python", "UNAVAILABLE")
SOUND = Observed(
    accepted=frozenset({"e1"}),
    ended=frozenset({"e1"}),
    blocked_starts=0,
    orders={"tea": "e1"},
    records=[RECORD],
    charges=[MODEL_CHARGE, Charge("e1", TOOL_KEY, TOOL_COST)],
    bills=[Bill("chatcmpl-1", MODEL_KEY, TOKENS)],
    effects=["tea"],
    reported={"e1": MODEL_COST + TOOL_COST},
)


def violations(**changes: object) -> list[str]:
    return checked(replace(SOUND, **changes)).violations  # type: ignore[arg-type]


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    seen = checked(SOUND)
    assert (seen.accepted, seen.finished, seen.violations) == (1, 1, [])


def test_a_record_that_is_delivered_twice_is_one() -> None:
    assert violations(records=[RECORD, RECORD]) == []


def test_a_planted_double_charge_is_found() -> None:
    seen = checked(replace(SOUND, charges=[*SOUND.charges, MODEL_CHARGE]))
    assert seen.charged_twice == 2
    assert f"the call {MODEL_KEY} is charged 2 times" in seen.violations
    assert "the reply chatcmpl-1 is charged 2 times" in seen.violations


def test_a_planted_lost_episode_is_found() -> None:
    seen = checked(replace(SOUND, accepted=frozenset({"e1", "e2"})))
    assert (seen.finished, seen.lost) == (1, 1)
    assert seen.violations == ["episode e2 did not end"]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"records": []}, "not on the stream"),
        ({"records": [RECORD, replace(RECORD, record_id="e1:2")]}, "as 2 records"),
        ({"records": [replace(RECORD, stop_reason="FAILED")]}, "ended as FAILED"),
        ({"records": [replace(RECORD, cost=Decimal("0.00002500000001"))]}, "on the stream and"),
        (
            {"records": [replace(RECORD, calls=(*RECORD.calls, BROKEN_CALL))]},
            "was answered with UNAVAILABLE",
        ),
        ({"effects": ["tea", "tea"]}, "placed 2 times"),
        ({"effects": []}, "was not placed"),
        ({"orders": {"tea": "e1", "milk": "e1"}}, "milk is due, and no call asks"),
        ({"bills": []}, "is charged and not billed"),
        ({"bills": [Bill("chatcmpl-1", MODEL_KEY, (101, 20))]}, "and billed"),
        (
            {"bills": [*SOUND.bills, Bill("chatcmpl-2", "e1/2/model/0", TOKENS)]},
            "is billed and not charged",
        ),
        ({"open_holds": ["e1/9/tool/0"]}, "hold e1/9/tool/0 is open"),
        ({"reported": {"e1": MODEL_COST}}, "reports"),
        ({"blocked_starts": 2}, "2 starts were not accepted"),
    ],
)
def test_every_other_wrong_is_found(changes: dict[str, object], found: str) -> None:
    [only] = violations(**changes)
    assert found in only


def test_an_effect_of_which_nobody_knows_is_counted_and_not_wrong() -> None:
    unknown = replace(RECORD, calls=(Call(TOOL_KEY, "place_order", "CANCELLED", "tea"),))
    seen = checked(replace(SOUND, records=[unknown], effects=[]))
    assert (seen.violations, seen.unknown_effects) == ([], 1)


def test_a_tool_whose_own_server_was_harmed_may_fail() -> None:
    failed = replace(RECORD, calls=(Call(TOOL_KEY, "place_order", "UNAVAILABLE", "tea"),))
    harmed = frozenset({"place_order"})
    assert checked(replace(SOUND, records=[failed], excused=harmed)).violations == []
    assert checked(replace(SOUND, records=[failed])).violations


def test_poison_may_end_as_failed_and_must_end_all_the_same() -> None:
    poison = replace(SOUND, poisoned=frozenset({"e1"}))
    assert checked(replace(poison, records=[replace(RECORD, stop_reason="FAILED")])).failed == 0
    assert checked(replace(poison, ended=frozenset(), records=[])).lost == 1


def test_the_table_has_a_row_for_each_round_and_a_column_for_each_count() -> None:
    bad = checked(replace(SOUND, accepted=frozenset({"e1", "e2"}), open_holds=["e1/9/tool/0"]))
    rows = table(
        [
            Outcome(Round("postgres", Fault.KILL), bad, 3.25),
            Outcome(Round("logs", Fault.DISK_FULL), None, not_possible="no root"),
        ]
    ).splitlines()
    assert rows[2] == "| postgres | kill | 2 | 1 | 0 | 1 | 0 | 0 | 0 | 1 | 3.2 s |"
    assert "not possible: no root" in rows[3]
    assert len({row.count("|") for row in rows}) == 1


def test_the_sum_of_rounds_keeps_every_count_and_every_violation() -> None:
    bad = checked(replace(SOUND, ended=frozenset(), records=[]))
    both = merged([checked(SOUND), bad])
    assert (both.accepted, both.finished, both.lost) == (2, 1, 1)
    assert both.violations == bad.violations


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


FIRST = {
    "memory_bytes": 1000 * MIB,
    "broker_bytes": 50 * MIB,
    "disk_bytes": 200 * MIB,
    "processes": 40,
    "connections": 100,
    "open_files": 60,
    "temporary_files": 2,
    "file_locks": 7,
    "old_transactions": 0,
}


def measured(**changes: Callable[[int], Any]) -> list[Taken]:
    """Sixteen measurements, nine episodes apart; a change is the value at the n-th."""
    found = []
    for number in range(16):
        values: dict[str, Any] = {
            **FIRST,
            # Each episode is kept, in 300 KiB on disk and 50 KiB of the broker.
            "disk_bytes": 200 * MIB + number * 9 * 300 * 1024,
            "broker_bytes": 50 * MIB + number * 9 * 50 * 1024,
            **{name: value(number) for name, value in changes.items()},
        }
        found.append(Taken(at_s=number * 60.0, episodes=number * 9, **values))
    return found


def reasons(**changes: Callable[[int], Any]) -> list[str]:
    return [one.reason for one in grown(measured(**changes)) if one.reason]


def test_what_each_episode_leaves_in_the_stores_is_no_leak() -> None:
    assert reasons() == []


def test_a_start_may_take_what_it_needs() -> None:
    assert reasons(memory_bytes=lambda number: (400 if number < 3 else 1000) * MIB) == []


@pytest.mark.parametrize(
    ("leak", "named"),
    [
        ({"memory_bytes": lambda number: (1000 + 25 * number) * MIB}, "memory, MiB"),
        ({"processes": lambda number: 40 + number}, "processes"),
        ({"connections": lambda number: 100 + 8 * number}, "connections"),
        ({"open_files": lambda number: 60 + 5 * number}, "open files"),
        ({"disk_bytes": lambda number: number**2 * 16 * MIB}, "disk for each episode"),
        ({"broker_bytes": lambda number: number**2 * 16 * MIB}, "broker for each episode"),
    ],
)
def test_a_leak_fails_the_run_and_is_the_only_reason(
    leak: dict[str, Callable[[int], Any]], named: str
) -> None:
    [reason] = reasons(**leak)
    assert reason.startswith(named)
    assert "allowed" in reason
    assert reason in growth_table(measured(**leak))


def test_a_run_that_is_too_short_says_so() -> None:
    found = measured()[: MEASURES_MIN - 1]
    assert grown(found) == []
    assert "not measured" in growth_table(found)
