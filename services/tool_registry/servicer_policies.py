from typing import Any

import grpc

from podium.registry.v1 import policy_pb2
from podium.registry.v1 import policy_service_pb2 as pb
from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceServicer
from podium_kit.rpc.identity import current_identity
from podium_kit.rpc.pages import decode_page_token, encode_page_token, page_size, token_number
from podium_kit.wire import timestamp_from_proto
from tool_registry.history.convert import (
    adherence_to_proto,
    dry_run_to_proto,
    selection_from_proto,
)
from tool_registry.history.service import PolicyHistory
from tool_registry.models import Activation, Binding, LearningStep, PolicySpec, PolicyVersion
from tool_registry.policies.bindings import PolicyBindings
from tool_registry.policies.convert import (
    activation_to_proto,
    binding_to_proto,
    learning_step_from_proto,
    learning_step_to_proto,
    new_policy_from_proto,
    policy_to_proto,
)
from tool_registry.policies.convert_guardrails import guardrails_to_proto
from tool_registry.policies.presets import PRESETS
from tool_registry.policies.store_learning import LearningStore
from tool_registry.tools.listing import DEFAULT_PAGE, MAXIMUM_PAGE, take_page
from tool_registry.tools.service import Registry
from tool_registry.toolsets.convert import decisions_to_proto
from tool_registry.toolsets.policy_checks import PolicyValidator
from tool_registry.toolsets.resolution import Resolution
from tool_registry.toolsets.resolver import PlannedCall

MOMENT_MAX, SEQUENCE_MAX = 10**18, 2**63
SEQUENCE_END = 10**18 - 1
Context = grpc.aio.ServicerContext[Any, Any]


class PolicyServicer(PolicyServiceServicer):
    def __init__(
        self,
        registry: Registry,
        checks: PolicyValidator,
        resolution: Resolution,
        history: PolicyHistory,
        bindings: PolicyBindings,
        *,
        learning: LearningStore,
    ) -> None:
        self._registry = registry
        self._checks = checks
        self._resolution = resolution
        self._history = history
        self._bindings = bindings
        self._learning = learning

    async def CreatePolicy(
        self, request: pb.CreatePolicyRequest, context: Context
    ) -> pb.CreatePolicyResponse:
        spec, notices = await self._new(request.spec)
        policy, created = await self._registry.create_policy(spec, request.validate_only)
        return pb.CreatePolicyResponse(
            policy=policy_to_proto(policy), created=created, notices=notices
        )

    async def DeletePolicy(
        self, request: pb.DeletePolicyRequest, context: Context
    ) -> pb.DeletePolicyResponse:
        deleted = await self._registry.delete_policy(request.name, request.version)
        return pb.DeletePolicyResponse(policies=[policy_to_proto(policy) for policy in deleted])

    async def GetPolicy(
        self, request: pb.GetPolicyRequest, context: Context
    ) -> pb.GetPolicyResponse:
        policy = await self._registry.policy(request.name, request.version)
        return pb.GetPolicyResponse(policy=policy_to_proto(policy))

    async def ListPolicies(
        self, request: pb.ListPoliciesRequest, context: Context
    ) -> pb.ListPoliciesResponse:
        policies = sorted(await self._registry.newest_policies(), key=_place)
        page, token = take_page(policies, _place, request.page_size, request.page_token, _bytes)
        return pb.ListPoliciesResponse(
            policies=[policy_to_proto(policy) for policy in page], next_page_token=token
        )

    async def ActivatePolicy(
        self, request: pb.ActivatePolicyRequest, context: Context
    ) -> pb.ActivatePolicyResponse:
        since = None
        if request.HasField("effective_time"):
            since = timestamp_from_proto(request.effective_time)
        policy = await self._registry.activate(request.name, request.version, since)
        return pb.ActivatePolicyResponse(policy=policy_to_proto(policy))

    async def ListActivations(
        self, request: pb.ListActivationsRequest, context: Context
    ) -> pb.ListActivationsResponse:
        activations = (await self._registry.catalogue()).activations[::-1]
        page, token = take_page(activations, _age, request.page_size, request.page_token)
        return pb.ListActivationsResponse(
            activations=[activation_to_proto(one) for one in page], next_page_token=token
        )

    async def BindPolicy(
        self, request: pb.BindPolicyRequest, context: Context
    ) -> pb.BindPolicyResponse:
        binding = await self._bindings.bind(request.policy, request.principal)
        return pb.BindPolicyResponse(binding=binding_to_proto(binding))

    async def UnbindPolicy(
        self, request: pb.UnbindPolicyRequest, context: Context
    ) -> pb.UnbindPolicyResponse:
        binding = await self._bindings.unbind(request.policy, request.principal)
        return pb.UnbindPolicyResponse(binding=binding_to_proto(binding))

    async def ListPolicyBindings(
        self, request: pb.ListPolicyBindingsRequest, context: Context
    ) -> pb.ListPolicyBindingsResponse:
        bindings = sorted((await self._registry.catalogue()).bindings, key=_pair)
        page, token = take_page(bindings, _pair, request.page_size, request.page_token)
        return pb.ListPolicyBindingsResponse(
            bindings=[binding_to_proto(one) for one in page], next_page_token=token
        )

    async def RecordLearningStep(
        self, request: pb.RecordLearningStepRequest, context: Context
    ) -> pb.RecordLearningStepResponse:
        identity = current_identity()
        step = learning_step_from_proto(request.step, identity.subject)
        recorded = await self._learning.record(identity.tenant, step)
        return pb.RecordLearningStepResponse(step=learning_step_to_proto(recorded))

    async def ListLearningSteps(
        self, request: pb.ListLearningStepsRequest, context: Context
    ) -> pb.ListLearningStepsResponse:
        size = page_size(request.page_size, DEFAULT_PAGE, MAXIMUM_PAGE)
        before = token_number(decode_page_token(request.page_token), "before", SEQUENCE_END)
        tenant = current_identity().tenant
        steps = await self._learning.page(tenant, request.policy, before, size + 1)
        token = _before(steps[size - 1]) if steps[size:] else ""
        return pb.ListLearningStepsResponse(
            steps=[learning_step_to_proto(step) for step in steps[:size]], next_page_token=token
        )

    async def CheckCalls(
        self, request: pb.CheckCallsRequest, context: Context
    ) -> pb.CheckCallsResponse:
        calls = [
            PlannedCall(call.tool_name, call.tool_version, call.model_alias)
            for call in request.calls
        ]
        policy, decisions = await self._resolution.check(request.policy, calls)
        return pb.CheckCallsResponse(
            decisions=[
                pb.CallDecision(
                    allowed=each.allowed,
                    reason=each.reason,
                    needs_approval=each.needs_approval,
                    guardrails=guardrails_to_proto(each.guardrails),
                    cache=cache_to_proto(each.cache),
                )
                for each in decisions
            ],
            policy_name=policy.spec.name,
            policy_version=policy.version,
        )

    async def ExplainToolset(
        self, request: pb.ExplainToolsetRequest, context: Context
    ) -> pb.ExplainToolsetResponse:
        spec, notices = await self._tried(request)
        principals = frozenset(request.principals)
        decisions = await self._resolution.explain(request.policy, spec, principals)
        return pb.ExplainToolsetResponse(decisions=decisions_to_proto(decisions), notices=notices)

    async def DryRunPolicy(
        self, request: pb.DryRunPolicyRequest, context: Context
    ) -> pb.DryRunPolicyResponse:
        spec, notices = await self._tried(request)
        past = selection_from_proto(self._history, request.past)
        reply = dry_run_to_proto(await self._history.dry_run(request.policy, spec, past))
        reply.notices.extend(notices)
        return reply

    async def ReportAdherence(
        self, request: pb.ReportAdherenceRequest, context: Context
    ) -> pb.ReportAdherenceResponse:
        past = selection_from_proto(self._history, request.past)
        answered = request.solved_rule == pb.SOLVED_RULE_ANSWERED
        policies = await self._history.adherence(past, request.baseline_policy, answered)
        return adherence_to_proto(policies)

    async def _tried(
        self, request: pb.ExplainToolsetRequest | pb.DryRunPolicyRequest
    ) -> tuple[PolicySpec | None, list[str]]:
        """The policy that a request brings along, checked as one that is created."""
        return await self._new(request.spec) if request.HasField("spec") else (None, [])

    async def _new(self, spec: policy_pb2.PolicySpec) -> tuple[PolicySpec, list[str]]:
        policy = new_policy_from_proto(spec)
        return policy, await self._checks.check(policy)


def cache_to_proto(serialized: bytes | None) -> policy_pb2.ResponseCache | None:
    return None if serialized is None else policy_pb2.ResponseCache.FromString(serialized)


def _age(activation: Activation) -> str:
    """Sorts newest first; of two for the same moment the later one is newer."""
    moment = int(activation.effective_time.timestamp() * 1e6)
    return f"{MOMENT_MAX - moment:020}{SEQUENCE_MAX - activation.sequence:020}"


def _before(step: LearningStep) -> str:
    return encode_page_token({"before": str(step.sequence)})


def _pair(binding: Binding) -> str:
    # It sorts before every character a principal may hold.
    return f"{binding.principal}\x01{binding.policy}"


def _bytes(policy: PolicyVersion) -> int:
    return len(policy.spec.wire)


def _place(policy: PolicyVersion) -> str:
    return f"{int(policy.spec.name not in PRESETS)}/{policy.spec.name}"
