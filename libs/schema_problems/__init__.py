"""Why a value does not fit a JSON Schema, in words a model can mend it by."""

from schema_problems.problems import problems

__all__ = ["problems"]
