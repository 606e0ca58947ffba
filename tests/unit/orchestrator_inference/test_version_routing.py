from pathlib import Path

from orchestrator_inference.versions.routing import VersionRouting
from podium_kit.policy_versions import Alias, Aliases

NAME = "policy-demo-v1"


def test_calls_are_counted_while_they_last(tmp_path: Path) -> None:
    aliases = Aliases(tmp_path)
    aliases.move(Alias.PROMOTED, NAME)
    routing = VersionRouting(aliases, lambda: frozenset({NAME}))
    with routing.routed("") as promoted, routing.routed(NAME), routing.routed("anything"):
        assert promoted == NAME
        assert routing.in_use == {NAME: 2, "anything": 1}
    assert not routing.in_use
