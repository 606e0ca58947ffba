"""What a tenant registered as objects of Kubernetes."""

from typing import Any

from podium.ledger.v1 import budget_service_pb2 as budgets_pb2
from podium.registry.v1 import policy_pb2, policy_service_pb2
from podium_kit.client.gateway import Gateway
from podium_operations.controller.exporting import exported


class Registered(Gateway):
    """A platform with these policies and budgets."""

    def __init__(self, policies: list[str], budgets: list[str]) -> None:
        self.policies, self.budgets = policies, budgets

    async def all(self, path: str, reply: Any, **query: Any) -> Any:
        found = reply()
        if isinstance(found, policy_service_pb2.ListPoliciesResponse):
            specs = [policy_pb2.PolicySpec(name=name) for name in self.policies]
            found.policies.extend(policy_pb2.Policy(spec=spec) for spec in specs)
        if isinstance(found, budgets_pb2.ListBudgetsResponse):
            budgets = [budgets_pb2.Budget(id=name) for name in self.budgets]
            found.statuses.extend(budgets_pb2.BudgetStatus(budget=each) for each in budgets)
        return found


async def test_names_that_differ_are_objects_of_different_names() -> None:
    platform = Registered(["a_b", "a-b"], ["team/x", "Team X", "team-x", "own"])
    objects = await exported(platform)
    names = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(names)) == len(objects) == 6
    assert ("Policy", "a-b") in names and ("Budget", "team-x") in names
    said = [each["spec"].get("name") or each["spec"].get("id") for each in objects]
    assert said == ["a_b", None, "team/x", "Team X", None, None]


async def test_a_name_that_is_taken_once_has_no_digest() -> None:
    [policy] = await exported(Registered(["a_b"], []))
    assert policy["metadata"]["name"] == "a-b"
