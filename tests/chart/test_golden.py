"""Each profile renders its golden file; `make chart-docs` records an intended change."""

import copy

import pytest

from chart.golden import differences, objects_of, written_of
from chart.rendering import PROFILES

FIX = "if that is meant: make chart-docs"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_renders_what_was_written_down(profile: str) -> None:
    found = list(differences(written_of(profile), objects_of(profile)))
    assert not found, "\n".join([*found[:20], FIX])


def test_a_change_is_reported_by_its_path() -> None:
    before = objects_of("minimal-cpu")
    now = copy.deepcopy(before)
    del now["Service/podium-gateway"]["spec"]["ports"][0]["port"]
    (found,) = differences(before, now)
    assert found.startswith("Service/podium-gateway.spec.ports[0].port: 8080 -> null")
