"""What somebody looked at found."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, and what fixes it where it is not well."""

    what: str
    well: bool
    finding: str
    fix: str = ""
