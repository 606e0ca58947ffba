# Written by `make sdk` from podium_client/_async; do not edit.
"""Policies: what is preferred, allowed and paid."""

from collections.abc import Sequence
from datetime import datetime

from podium_client._sync.pages import Pages
from podium_client._sync.transport import Transport, required
from podium_client.models import (
    ActivatePolicyRequest,
    ActivatePolicyResponse,
    BindPolicyRequest,
    BindPolicyResponse,
    CreatePolicyRequest,
    CreatePolicyResponse,
    DeletePolicyResponse,
    DryRunPolicyRequest,
    DryRunPolicyResponse,
    ExplainToolsetRequest,
    ExplainToolsetResponse,
    GetPolicyResponse,
    ListActivationsResponse,
    ListPoliciesResponse,
    ListPolicyBindingsResponse,
    PastEpisodes,
    Policy,
    PolicyActivation,
    PolicyBinding,
    PolicySpec,
    ReportAdherenceRequest,
    ReportAdherenceResponse,
    ToolDecision,
    UnbindPolicyRequest,
    UnbindPolicyResponse,
)
from podium_client.wire import path

POLICY = "/v1/policies/{name}"


class Policies:
    """Versions of the tenant's policies, and what they decide."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, spec: PolicySpec) -> Policy:
        """A policy, or a new version of it; the same spec again keeps its version."""
        body = CreatePolicyRequest(spec=spec)
        reply = self._transport.call("POST", "/v1/policies", CreatePolicyResponse, body=body)
        return required(reply.policy)

    def validate(self, spec: PolicySpec) -> None:
        """Raises BadRequest for what cannot be created; stores nothing."""
        body = CreatePolicyRequest(spec=spec, validate_only=True)
        self._transport.call("POST", "/v1/policies", CreatePolicyResponse, body=body)

    def get(self, name: str, version: int = 0) -> Policy:
        """One version; 0 means the newest."""
        reply = self._transport.call(
            "GET", path(POLICY, name=name), GetPolicyResponse, query={"version": version}
        )
        return required(reply.policy)

    def list(self, *, page_size: int = 0) -> Pages[Policy]:
        """Newest versions, presets first."""
        return self._transport.pages(
            "/v1/policies",
            ListPoliciesResponse,
            lambda page: (page.policies, page.next_page_token),
            {"page_size": page_size},
        )

    def activate(
        self, name: str, version: int = 0, *, effective_time: datetime | None = None
    ) -> Policy:
        """Makes a version the default of new episodes, now or from a time on."""
        body = ActivatePolicyRequest(version=version, effective_time=effective_time)
        address = path(POLICY + "/activate", name=name)
        reply = self._transport.call("POST", address, ActivatePolicyResponse, body=body)
        return required(reply.policy)

    def delete(self, name: str, version: int = 0) -> Sequence[Policy]:
        """Deletes versions that nothing used, 0 all of them; what was used stays (Conflict)."""
        reply = self._transport.call(
            "DELETE", path(POLICY, name=name), DeletePolicyResponse, query={"version": version}
        )
        return reply.policies

    def activations(self, *, page_size: int = 0) -> Pages[PolicyActivation]:
        """Lists past and future activations, newest first."""
        return self._transport.pages(
            "/v1/policy-activations",
            ListActivationsResponse,
            lambda page: (page.activations, page.next_page_token),
            {"page_size": page_size},
        )

    def bind(self, name: str, principal: str) -> PolicyBinding:
        """Makes it bind "team:NAME", "role:NAME", "user:NAME" or "key:ORIGIN_ID"."""
        reply = self._transport.call(
            "POST",
            path(POLICY + "/bind", name=name),
            BindPolicyResponse,
            body=BindPolicyRequest(principal=principal),
        )
        return required(reply.binding)

    def unbind(self, name: str, principal: str) -> PolicyBinding:
        """Takes a binding back."""
        reply = self._transport.call(
            "POST",
            path(POLICY + "/unbind", name=name),
            UnbindPolicyResponse,
            body=UnbindPolicyRequest(principal=principal),
        )
        return required(reply.binding)

    def bindings(self, *, page_size: int = 0) -> Pages[PolicyBinding]:
        """Policies that bind people whatever policy they name."""
        return self._transport.pages(
            "/v1/policy-bindings",
            ListPolicyBindingsResponse,
            lambda page: (page.bindings, page.next_page_token),
            {"page_size": page_size},
        )

    def explain(
        self, policy: str = "", *, spec: PolicySpec | None = None
    ) -> Sequence[ToolDecision]:
        """Explains the decision on each tool, under a policy or under a spec that is not stored."""
        body = ExplainToolsetRequest(policy=policy, spec=spec)
        reply = self._transport.call(
            "POST", "/v1/policies/explain", ExplainToolsetResponse, body=body
        )
        return reply.decisions

    def dry_run(
        self, policy: str = "", *, spec: PolicySpec | None = None, past: PastEpisodes | None = None
    ) -> DryRunPolicyResponse:
        """Returns the changes that a policy would have made in past episodes."""
        body = DryRunPolicyRequest(policy=policy, spec=spec, past=past)
        return self._transport.call(
            "POST", "/v1/policies/dry-run", DryRunPolicyResponse, body=body
        )

    def report(self, request: ReportAdherenceRequest) -> ReportAdherenceResponse:
        """Reports how well past episodes followed their preferences."""
        return self._transport.call(
            "POST", "/v1/policies/report", ReportAdherenceResponse, body=request
        )
