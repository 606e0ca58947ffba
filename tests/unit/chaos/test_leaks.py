"""Growth is that of the warm part of a run; what is left behind is named."""

from dataclasses import replace

from chaos.leaks import MIB, Taken, growth_per_hour, left_behind

START = Taken(0.0, 100 * MIB, 10 * MIB, 40, 1, 0)


def test_growth_leaves_the_first_quarter_out_and_says_over_how_long() -> None:
    warm = replace(START, at_s=900.0, memory_bytes=500 * MIB)
    found = [START, warm, replace(warm, at_s=1800.0), replace(warm, at_s=2700.0)]
    assert growth_per_hour(found) == "memory +0 MiB an hour, disk +0 MiB an hour, over 30 minutes"
    found[-1] = replace(found[-1], memory_bytes=510 * MIB, disk_bytes=15 * MIB)
    assert growth_per_hour(found).startswith("memory +20 MiB an hour, disk +10 MiB an hour")


def test_folders_and_transactions_that_stay_are_named() -> None:
    assert left_behind(START, replace(START, at_s=60.0, temporary_files=2)) == []
    [folders, open_ones] = left_behind(START, replace(START, temporary_files=4, old_transactions=1))
    assert "4 folders of sandboxes" in folders
    assert "1 transactions" in open_ones
