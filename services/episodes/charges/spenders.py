"""Teams and agents that a caller spends for: those of its key or token, which labels narrow."""

from collections.abc import Mapping
from dataclasses import dataclass

from episodes.errors import NotAMember
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium_kit.rpc.identity import Identity, Scope

LABELS = ("team", "agent")


def check_labels(labels: Mapping[str, str], caller: Identity) -> None:
    """Raises NotAMember. A tenant's admin may spend for every team and agent."""
    if caller.may(Scope.TENANT_ADMIN):
        return
    for label in LABELS:
        if (name := labels.get(label)) and name not in (own := caller.named(label)):
            raise NotAMember(label, name, own)


@dataclass(frozen=True)
class Spender:
    """The one team and agent that a call is reported for, of those whose budgets are charged."""

    labels: Mapping[str, str]
    identity: Identity

    def charge(self, request: ledger_pb.ReserveRequest) -> None:
        """Completes a request to the ledger."""
        request.subject.user = self.identity.subject
        request.subject.team, request.subject.agent = map(self._reported, LABELS)
        request.teams.extend(sorted(self.identity.named("team")))
        request.agents.extend(sorted(self.identity.named("agent")))

    def _reported(self, label: str) -> str:
        """The name that the label selects, or the first: a report names one."""
        return self.labels.get(label) or min(self.identity.named(label), default="")
