from collections.abc import Callable
from typing import Any

import pytest

from chaos.growth import MEASURES_MIN, grown, growth_table
from chaos.leaks import MIB, Taken

START = {
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
            **START,
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
