"""Checks of final answers: the demo marks tasks with them, episodes record them as outcomes."""

from verifiers.catalogue import load_verifier
from verifiers.verifier import InvalidVerifier, Unjudged, Verdict, Verifier, VerifierCall

__all__ = [
    "InvalidVerifier",
    "Unjudged",
    "Verdict",
    "Verifier",
    "VerifierCall",
    "load_verifier",
]
