"""Pure checks of final answers against known ones; the demo and training share them."""

from verifiers.verifier import InvalidVerifier, Verifier, VerifierKind

__all__ = ["InvalidVerifier", "Verifier", "VerifierKind"]
