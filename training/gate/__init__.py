"""The gate: whether a candidate may replace the promoted policy."""

from gate.bootstrap import Interval, paired_interval
from gate.decision import Decision, UnplannedLook, decide, read_decision, write_decision
from gate.evaluation import Evaluated, InvalidEvaluation, pair, read_evaluation
from gate.rules import GateRules, Objective
from policy_versions.decisions import Verdict

__all__ = [
    "Decision",
    "Evaluated",
    "GateRules",
    "Interval",
    "InvalidEvaluation",
    "Objective",
    "UnplannedLook",
    "Verdict",
    "decide",
    "pair",
    "paired_interval",
    "read_decision",
    "read_evaluation",
    "write_decision",
]
