"""Trained policies as folders that are whole or not there, and which of them is served."""

from policy_versions.aliases import Alias, Aliases
from policy_versions.canary import Canary, CanaryPrompt, canary_fault
from policy_versions.errors import ArtifactRefused, InvalidVersionName, NoEarlierVersion, NotReady
from policy_versions.manifest import Format, Manifest
from policy_versions.names import VersionName
from policy_versions.store import VersionStore

__all__ = [
    "Alias",
    "Aliases",
    "ArtifactRefused",
    "Canary",
    "CanaryPrompt",
    "Format",
    "InvalidVersionName",
    "Manifest",
    "NoEarlierVersion",
    "NotReady",
    "VersionName",
    "VersionStore",
    "canary_fault",
]
