"""Idempotency keys and ids, derived from what a retry keeps.

A key never holds an attempt number, a clock or text a model wrote, so every
attempt of the same effect carries the same key.
"""

import hashlib
import uuid
from enum import StrEnum

from podium_kit.derived_ids import derived_uuid8


class StepKind(StrEnum):
    MODEL = "model"
    TOOL = "tool"
    EXECUTOR = "executor"
    APPROVAL = "approval"
    CLIENT_CALLS = "client_calls"
    VERIFIER = "verifier"
    JUDGEMENT = "judgement"


def canonical_id(name: str) -> str | None:
    """Returns an episode's id in its stored form, however a client writes it; None for no id."""
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return None


def effect_key(episode_id: str, turn: int, kind: StepKind, index: int = 0) -> str:
    """Returns `<episode id>/<turn>/<kind>/<call index>`."""
    return f"{episode_id}/{turn}/{kind.value}/{index}"


def effect_place(key: str) -> tuple[int, StepKind, int]:
    _, turn, kind, index = key.split("/")
    return int(turn), StepKind(kind), int(index)


def child_episode_id(parent_id: str, key: str) -> str:
    """Returns the id of the episode that answers a call, the same for every attempt."""
    return derived_uuid8(parent_id, key)


def verifier_session(episode_id: str) -> str:
    """Returns the session of a verifier's own calls: nothing in the episode could prepare it."""
    return str(uuid.uuid5(uuid.UUID(episode_id), "verifier"))


def workflow_id(episode_id: str) -> str:
    """Returns Temporal's id of the episode's workflow; unlike a run id it outlives continue-as-
    new."""
    return f"episode/{episode_id}"


def fairness_key(tenant: str) -> str:
    """Returns Temporal's name of a tenant's queue, of at most 64 bytes and unique to the tenant.

    A tenant is ASCII; one that is shorter is never equal to a digest.
    """
    return tenant if len(tenant) < 64 else hashlib.sha256(tenant.encode()).hexdigest()


def budget_id(episode_id: str) -> str:
    return f"episode/{episode_id}"


def record_id(kind: str, subject_id: str) -> str:
    return f"{kind}:{subject_id}:v1"
