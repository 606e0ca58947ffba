"""Names under which an episode is decided by a rule in place of an orchestrator's model.

`rule/worth` asks the model by which a right answer is worth most, `rule/competence` the one for
which that worth times the probability of a right answer is highest, `rule/cheapest` the cheapest,
`rule/random` any, and `rule/always/TOOL/MODEL` that one; TOOL alone names a tool without a choice
of models. Evaluations measure orchestrators against them.
"""

import re

# A rule has no tokens; its price is 0, and known.
RULE_SKU = "orchestrator/rule"
WORTH, COMPETENCE = "rule/worth", "rule/competence"
CHEAPEST, RANDOM, ALWAYS = "rule/cheapest", "rule/random", "rule/always/"
RULES = (WORTH, CHEAPEST, RANDOM, COMPETENCE, f"{ALWAYS}TOOL/MODEL")
_PREFIX = "rule/"
_NAME = re.compile(rf"{WORTH}|{COMPETENCE}|{CHEAPEST}|{RANDOM}|{ALWAYS}[^/]+(/.+)?")


def names_rule(model: str) -> bool:
    """Returns whether a model's name is one of a rule; the name may be of a rule that is none."""
    return model.startswith(_PREFIX)


def is_rule(model: str) -> bool:
    return _NAME.fullmatch(model) is not None
