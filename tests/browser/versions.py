"""Trained versions in a store, as a trainer and a gate left them; no engine serves them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builders.evaluations import evaluated
from podium_kit.policy_versions import Alias, Aliases, VersionStore
from podium_kit.policy_versions.metrics import store_metrics
from podium_training.gate import GateRules, decide, write_decision
from unit.podium_kit.policy_versions.test_store import fill, make_manifest

FIRST, PROMOTED, CANDIDATE, WORSE = (f"policy-console-v{number}" for number in (2, 4, 6, 8))


def trained_versions(root: Path, tool: str) -> Path:
    """Returns the store, with one that the gate let through, and one that it did not."""
    store = VersionStore(root)
    for name in (FIRST, PROMOTED, CANDIDATE, WORSE):
        store.write(make_manifest(name), fill)
    for name, gain in ((CANDIDATE, 0.25), (WORSE, -0.25)):
        pairs = [
            (evaluated(task, name, 0.5 + gain), evaluated(task, PROMOTED, 0.5))
            for task in range(40)
        ]
        write_decision(root, decide(name, PROMOTED, pairs, GateRules()))
    steps = [
        {
            "step": step,
            "reward_mean": step / 10,
            "reward_solved": step / 8,
            "cost_mean": 0.004 - step / 4000,
            "latency_mean_s": 2.5,
            "drift_mean": 0.001 * step,
            "calls calculator": 2.0,
            f"calls {tool}": 1.0,
            "dropped no variance": float(step),
        }
        for step in range(1, 9)
    ]
    store_metrics(root, "console", steps)
    return root


@contextmanager
def promoted(root: Path) -> Iterator[None]:
    """Two promotions, one after the other. Meanwhile no episode gets a model by default."""
    aliases = Aliases(root)
    for name in (FIRST, PROMOTED):
        aliases.move(Alias.PROMOTED, name)
    try:
        yield
    finally:
        (root / "aliases" / "promoted.json").unlink()
