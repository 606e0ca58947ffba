from dataclasses import dataclass

from podium_kit.rpc.errors import ResourceExhausted

MIB = 1024 * 1024


class WorkspaceFull(ResourceExhausted):
    def __init__(self, whose: str, size_bytes: int, most_bytes: int, fix: str) -> None:
        super().__init__(
            f"files and variables of this call were not kept, and are again as before it: {whose} "
            f"would hold {size_bytes / MIB:.1f} MiB of at most {most_bytes / MIB:.1f} MiB; {fix}"
        )


class WorkspaceDamaged(Exception):
    """A piece is not what its digest says; repeating the call is of no use."""

    def __init__(self, digest: bytes) -> None:
        super().__init__(f"the stored piece {digest.hex()} of a workspace is damaged")


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
