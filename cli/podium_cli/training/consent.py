"""Whether a policy consents to training on its episodes."""

from collections.abc import Sequence
from datetime import UTC, datetime

from podium.registry.v1 import policy_pb2, policy_service_pb2
from podium_cli.output import Output
from podium_kit.client.gateway import Gateway, segment
from podium_training.tasks.task import Split, Task


async def note_consent(
    output: Output, gateway: Gateway, policies: Sequence[str], tasks: Sequence[Task]
) -> bool:
    """Prints a note for each policy without training consent that training tasks run under.

    False when that is all of them. Raises Rejected, Unreachable.
    """
    if all(task.split is not Split.TRAIN for task in tasks):
        return True
    used = [await _policy_of(gateway, name) for name in policies]
    without = [policy for policy in used if not policy.spec.training_consent]
    for policy in without:
        output.note(f"[bold yellow]note:[/] {_without_consent(policy)}")
    return len(without) < len(used)


async def _policy_of(gateway: Gateway, name: str) -> policy_pb2.Policy:
    """What episodes run under; without a name it is the tenant's."""
    if name:
        return await _version(gateway, name)
    listed = await gateway.all("/v1/policies", policy_service_pb2.ListPoliciesResponse)
    for policy in listed.policies:
        if policy.active:
            return policy
    # An earlier version of its policy is active; the list has the newest alone.
    path = "/v1/policy-activations"
    begun = await gateway.all(path, policy_service_pb2.ListActivationsResponse)
    now = datetime.now(UTC)
    since = [each for each in begun.activations if each.effective_time.ToDatetime(UTC) <= now]
    return await _version(gateway, since[0].name, since[0].version)


async def _version(gateway: Gateway, name: str, version: int = 0) -> policy_pb2.Policy:
    path = f"/v1/policies/{segment(name)}"
    reply = await gateway.get(path, policy_service_pb2.GetPolicyResponse, version=version or None)
    return reply.policy


def _without_consent(policy: policy_pb2.Policy) -> str:
    return (
        f"policy {policy.spec.name} v{policy.version} does not consent to training: no run will"
        " learn from these episodes. To learn from them, add `trainingConsent: true` to a policy,"
        " `podium policies apply` it, and name it with --policy"
    )
