from podium_kit.policy_versions.decisions import Verdict
from podium_training.gate.bootstrap import Interval, paired_interval
from podium_training.gate.decision import (
    Decision,
    UnplannedLook,
    decide,
    read_decision,
    write_decision,
)
from podium_training.gate.evaluation import Evaluated, InvalidEvaluation, pair, read_evaluation
from podium_training.gate.rules import GateRules, Objective

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
