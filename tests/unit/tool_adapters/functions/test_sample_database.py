"""The sample database is built within a time limit."""

import subprocess

import pytest

from podium_functions import sample_database


def test_a_builder_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_database, "BUILDING_S", 0.001)
    with pytest.raises(subprocess.TimeoutExpired):
        sample_database._built.__wrapped__()
