from podium_kit.policy_versions.aliases import Alias, Aliases
from podium_kit.policy_versions.canary import Canary, CanaryPrompt, canary_fault
from podium_kit.policy_versions.manifest import Format, Manifest
from podium_kit.policy_versions.names import (
    ArtifactRejected,
    InvalidVersionName,
    NoEarlierVersion,
    NotReady,
    Unreadable,
    VersionName,
)
from podium_kit.policy_versions.store import VersionStore

__all__ = [
    "Alias",
    "Aliases",
    "ArtifactRejected",
    "Canary",
    "CanaryPrompt",
    "Format",
    "InvalidVersionName",
    "Manifest",
    "NoEarlierVersion",
    "NotReady",
    "Unreadable",
    "VersionName",
    "VersionStore",
    "canary_fault",
]
