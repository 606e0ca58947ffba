from collections import Counter
from enum import StrEnum


class Rejection(StrEnum):
    ROWS_NOT_NATURAL = "rows not natural"
    ROWS_UNUSABLE = "rows unusable"
    TOOL_UNUSABLE = "tool unusable"
    INTENT_REPEATED = "intent repeated"
    DRAFT_UNUSABLE = "draft unusable"
    NOT_EVOLVED = "not evolved"
    """The harder version was unusable; the task stays as it was."""
    GOLDEN_CALL_FAILS = "golden call fails"
    SAID_NOWHERE = "information no call gives"
    NEEDS_NO_ACTION = "solvable without any action"
    NOT_SOLVED = "not solved in any attempt"
    REPEATED = "repeated"


Rejections = Counter[Rejection]
