from dataclasses import dataclass


@dataclass(frozen=True)
class Whose:
    tenant: str
    episode_id: str


@dataclass(frozen=True)
class Saved:
    """The state after an episode's last call; both are empty before the first.

    `packed` is an archive that only a sandbox opens, `revision` names this state of it.
    """

    revision: str = ""
    packed: bytes = b""


@dataclass(frozen=True)
class Quotas:
    """Most bytes of one packed workspace, and stored for all workspaces of a tenant."""

    workspace_bytes: int
    tenant_bytes: int
