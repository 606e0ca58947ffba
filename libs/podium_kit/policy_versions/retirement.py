"""Versions whose files may be deleted: those with no alias that no engine has loaded.

An engine that is asked for an adapter whose folder is gone ends (seen with vLLM 0.32), so the
serving side unloads a version first and says so in its report.
"""

from podium_kit.policy_versions.aliases import Alias, Aliases
from podium_kit.policy_versions.reports import read_report
from podium_kit.policy_versions.store import VersionStore

RETIRED = "retired"


def removable(store: VersionStore) -> list[str]:
    """Names, by run and number. What an alias means or meant before stays, to go back to."""
    aliases = Aliases(store.root)
    meant = {name for alias in Alias for name in aliases.history(alias)[-2:]}
    return [
        name
        for name in map(str, store.names())
        if name not in meant and _is_unloaded_everywhere(store, name)
    ]


def _is_unloaded_everywhere(store: VersionStore, name: str) -> bool:
    report = read_report(store.root, name)
    return report is not None and report.faults == (RETIRED,) and report.replicas == 0
