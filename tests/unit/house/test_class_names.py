import ast
from collections import defaultdict
from pathlib import PurePath

from unit.house.source_files import service_files, tree

# One concept on both sides of a service's API.
SHARED = {
    "BudgetExhausted",
    "CallEstimate",
    "ClientTool",
    "Facts",
    "InvalidAnswerSchema",
    "InvalidFollowing",
    "ListedTool",
    "ModelNotFound",
    "Preferences",
    "PriceComponent",
    "PromptMode",
    "StopReason",
    "Unavailability",
}


def test_services_share_a_class_name_only_for_one_concept() -> None:
    services = defaultdict(set)
    for path in service_files():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                services[node.name].add(PurePath(path).parts[1])
    shared = {name for name, found in services.items() if len(found) > 1}
    assert shared == SHARED, "name a class after what its service means by it"
