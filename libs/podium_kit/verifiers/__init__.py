from podium_kit.verifiers.catalogue import load_verifier
from podium_kit.verifiers.verifier import InvalidVerifier, Unjudged, Verdict, Verifier, VerifierCall

__all__ = [
    "InvalidVerifier",
    "Unjudged",
    "Verdict",
    "Verifier",
    "VerifierCall",
    "load_verifier",
]
