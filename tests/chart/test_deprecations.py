"""Every key that moved is rejected with where it went."""

import pytest
import yaml
from helm_python import HelmError

from chart.rendering import CHARTS, chart
from chart.test_values_schema import nested

MOVED = [
    (name, line["key"], line["since"], line["hint"])
    for name in ("podium", "podium-tenant")
    for line in yaml.safe_load((CHARTS / name / "deprecated.yaml").read_text())
]


@pytest.mark.parametrize(("name", "key", "since", "hint"), MOVED)
def test_a_key_that_moved_says_where_to(name: str, key: str, since: str, hint: str) -> None:
    with pytest.raises(HelmError) as rejection:
        chart(name).render(nested(key, "anything"), name="podium", namespace="podium")
    assert f"{key} is gone since {since}: {hint}" in str(rejection.value)


def test_the_upgrade_guide_lists_every_key_that_moved() -> None:
    guide = (CHARTS / "podium/UPGRADING.md").read_text()
    assert not [key for _, key, _, _ in MOVED if f"`{key}`" not in guide]
