"""Readers of episodes and direct calls, and the teams and agents that they spend for.

Content is text of people, models and tools: tasks, messages, files, schemas, arguments,
results, answers, failures and feedback. All else is metadata, which the whole tenant reads.
"""

from collections.abc import Mapping

from episodes.errors import NotAMember
from episodes.models import StoredEpisode
from episodes.spending.holds import LABELS
from podium_kit.rpc.identity import Identity, Scope, ScopeMissing, current_identity


def may_read(subject: str, reader: Identity, *, awaits_approval: bool = False) -> bool:
    """Returns whether the reader may read what the subject started, in the tenant of both."""
    if subject == reader.subject or reader.may(Scope.TRAJECTORIES_READ):
        return True
    return awaits_approval and reader.may(Scope.CALLS_APPROVE)


def may_read_episode(stored: StoredEpisode) -> bool:
    subject, awaits_approval = stored.new.subject, stored.awaits_approval
    return may_read(subject, current_identity(), awaits_approval=awaits_approval)


def require_readable(stored: StoredEpisode) -> None:
    if not may_read_episode(stored):
        raise ScopeMissing(current_identity(), [Scope.TRAJECTORIES_READ])


def check_labels(labels: Mapping[str, str], caller: Identity) -> None:
    """A tenant's admin may spend for every team and agent."""
    if caller.may(Scope.TENANT_ADMIN):
        return
    for label in LABELS:
        if (name := labels.get(label)) and name not in (own := caller.named(label)):
            raise NotAMember(label, name, own)
