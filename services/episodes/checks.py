"""Checks of answers: from the wire to verifiers, and what they say back to the wire."""

import json

from episodes.models import StopReason
from podium.episodes.v1 import check_pb2, episode_pb2
from podium_kit.verifiers import InvalidVerifier, Verdict, Verifier, load_verifier

# Ends that say nothing about what the model can do: such an episode is unjudged, not wrong.
INTERRUPTED = (StopReason.CANCELLED, StopReason.FAILED)


def verifier_of(check: check_pb2.Check) -> Verifier:
    """The verifier a check names. Raises InvalidVerifier."""
    try:
        parameters = json.loads(check.parameters_json or "{}")
    except ValueError as error:
        raise InvalidVerifier(f"parameters_json is not JSON: {error}") from error
    if not isinstance(parameters, dict):
        raise InvalidVerifier("parameters_json is not a JSON object")
    return load_verifier(check.verifier, parameters, check.verifier_version)


def tools_of_check(spec: episode_pb2.EpisodeSpec) -> list[str]:
    """Tools the check will call, none for most."""
    if not spec.HasField("check"):
        return []
    calls = verifier_of(spec.check).calls(spec.task, "any answer")
    return list(dict.fromkeys(call.tool for call in calls))


def judged(verifier: Verifier, verdict: Verdict) -> check_pb2.Judgement:
    """A verdict with the verifier's name and version."""
    return check_pb2.Judgement(
        verifier=verifier.name,
        verifier_version=verifier.version,
        score=verdict.score,
        explanation=verdict.explanation,
    )


def unjudged(check: check_pb2.Check, reason: str) -> check_pb2.Judgement:
    return check_pb2.Judgement(
        verifier=check.verifier, verifier_version=check.verifier_version, explanation=reason
    )


def without_answer(check: check_pb2.Check, stop_reason: StopReason) -> check_pb2.Judgement:
    """An episode that was let run to its limits and gave no answer has not solved its task."""
    if stop_reason in INTERRUPTED:
        return unjudged(check, f"the episode ended early: {stop_reason}")
    verdict = Verdict.of(False, f"no answer was given: {stop_reason}")
    return judged(verifier_of(check), verdict)
