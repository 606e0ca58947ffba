"""Runs in the environment of `bfcl-eval`: prints the verdict of its own checker for each line."""

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

# The table of models imports the clients of every provider. The checker reads one flag of it.
TABLE = "bfcl_eval.constants.model_config"
sys.modules[TABLE] = ModuleType(TABLE)
sys.modules[TABLE].MODEL_CONFIG_MAPPING = {  # type: ignore[attr-defined]
    "podium": SimpleNamespace(underscore_to_dot=False)
}

from bfcl_eval.constants.enums import Language  # noqa: E402
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # noqa: E402


def right(asked: dict[str, Any]) -> bool:
    try:
        found = ast_checker(
            asked["functions"],
            asked["output"],
            asked["expected"],
            Language.PYTHON,
            asked["category"],
            "podium",
        )
    except Exception:  # noqa: BLE001  the leaderboard counts an output that its checker fails at as wrong
        return False
    return bool(found["valid"])


for line in sys.stdin:
    sys.stdout.write(f"{json.dumps(right(json.loads(line)))}\n")
