from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One check, its result, and the fix where it failed."""

    what: str
    well: bool
    finding: str
    fix: str = ""
