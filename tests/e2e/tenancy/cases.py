"""Cases in which another tenant tries every RPC and route with the ids of the owner's resources.

REJECTED: the reply must be not found or permission denied. OWN: it succeeds, because it reads or
writes the caller's own resources; the reply may hold no byte of the owner's. NAMELESS: the request
has no field for a resource; an empty one is tried. NOT_SERVED: no service on one machine has it.
`$tool` is replaced by the id of a resource.
"""

from string import Template
from typing import Any

REJECTED, OWN, NAMELESS, NOT_SERVED = "rejected", "own", "nameless", "not served"
Case = tuple[str, dict[str, Any]]

EPISODE = {"episode_id": "$episode"}
SPEC = {"name": "$policy", "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT"}
SUBJECT = {"episode_id": "$held_episode", "turn": 7, "tool": "$tool"}
CALL = [{"dimension": "USAGE_DIMENSION_CALL", "amount": "1"}]
USAGE = {"quantities": CALL, "source": "USAGE_SOURCE_PROVIDER"}
HOLD = {
    "key": "$hold",
    "subject": SUBJECT,
    "sku": "$sku",
    "worst_case": CALL,
    "unknown_price": "UNKNOWN_PRICE_POLICY_ADMIT",
}
TOOL = {
    "name": "$tool",
    "kind": "TOOL_KIND_FUNCTION",
    "description": "the stranger's own",
    "parameters_json_schema": '{"type": "object"}',
    "connection": {"function": {"function": "calculator"}},
    "side_effect": "SIDE_EFFECT_PURE",
}
PRICE = {
    "sku": "$sku",
    "currency_code": "USD",
    "components": [{"dimension": "USAGE_DIMENSION_CALL", "unit_price": "9", "per": "1"}],
}
BUDGET = {
    "id": "$budget",
    "scope": "BUDGET_SCOPE_TENANT",
    "window": "BUDGET_WINDOW_TOTAL",
    "hard_limit": {"currency_code": "USD", "amount": "100"},
}

EVALUATION = {"suite": "sums", "arms": [{"name": "podium"}]}
ITEM = {
    "id": "one",
    "question": "whose item is it?",
    "check": {"verifier": "exact", "parameters_json": '{"expected": "mine"}'},
}

VERDICT = {"place": 0, "judge": "$tool", "verifier": "exact", "prompt_digest": "0" * 64}
CALIBRATION = {
    "id": "$unknown",
    "name": "labels",
    "digest": "0" * 64,
    "prompt_digest": "0" * 64,
    "judges": [{"judge": "$tool"}],
}
# Of traffic that the stranger has not.
LIVE = {
    "id": "$unknown",
    "suite": "live",
    "arms": [{"name": "own"}, {"name": "candidate", "policy": "$policy"}],
    "traffic": {"use": "LIVE_USE_AB", "policy": "nowhere", "share": 0.5},
}

# In the order they are tried: what names the owner's things comes before the stranger makes
# things of the same name.
RPCS: dict[str, Case] = {
    "EpisodeService/GetEpisode": (REJECTED, EPISODE),
    "EpisodeService/WatchEpisode": (REJECTED, EPISODE),
    "EpisodeService/CancelEpisode": (REJECTED, EPISODE),
    "EpisodeService/ApproveToolCall": (REJECTED, {**EPISODE, "turn": 1, "approved": True}),
    "EpisodeService/AnswerToolCalls": (REJECTED, {**EPISODE, "turn": 1, "results": [{}]}),
    "EpisodeService/GiveFeedback": (REJECTED, {**EPISODE, "score": 0}),
    "EpisodeService/GetTrajectory": (REJECTED, EPISODE),
    "EpisodeService/StartEpisode": (REJECTED, {**EPISODE, "spec": {"task": "whose id is this?"}}),
    "EpisodeService/ListEpisodes": (OWN, {}),
    "EpisodeService/SummarizeEpisodes": (OWN, {"bucket": "3600s"}),
    "EpisodeService/ListApprovals": (OWN, {}),
    "EpisodeService/CountPromptTokens": (
        REJECTED,
        {"spec": {"task": "how long is it?", "policy": "$policy"}},
    ),
    "EvaluationService/GetEvaluation": (REJECTED, {"evaluation_id": "$evaluation"}),
    "EvaluationService/ListTrials": (REJECTED, {"evaluation_id": "$evaluation"}),
    "EvaluationService/UpdateEvaluation": (
        REJECTED,
        {"evaluation_id": "$evaluation", "state": "EVALUATION_STATE_ENDED"},
    ),
    "EvaluationService/RecordVerdict": (REJECTED, {"evaluation_id": "$evaluation", "place": 0}),
    "EvaluationService/RecordVerdicts": (
        REJECTED,
        {"evaluation_id": "$evaluation", "verdicts": [VERDICT]},
    ),
    "EvaluationService/RecordEvaluationReport": (
        REJECTED,
        {"evaluation_id": "$evaluation", "report_json": "{}"},
    ),
    "EvaluationService/GetEvaluationReport": (REJECTED, {"evaluation_id": "$evaluation"}),
    "EvaluationService/ListVerdicts": (REJECTED, {"evaluation_id": "$evaluation"}),
    "EvaluationService/RecordJudgeCalibration": (OWN, {"calibration": CALIBRATION}),
    "EvaluationService/ListJudgeCalibrations": (OWN, {}),
    "EvaluationService/StopLiveEvaluation": (REJECTED, {"evaluation_id": "$evaluation"}),
    "EvaluationService/StartLiveEvaluation": (OWN, {"evaluation": LIVE}),
    "EvaluationService/ListEvaluations": (OWN, {}),
    "EvaluationService/CreateEvaluation": (
        OWN,
        {"evaluation": {**EVALUATION, "id": "$evaluation"}, "items": [ITEM]},
    ),
    "DeadLetterService/ListDeadLetters": (OWN, {}),
    "DeadLetterService/RedriveDeadLetters": (REJECTED, {"record_ids": ["$episode"]}),
    "DirectCallService/GetDirectCall": (REJECTED, {"call_id": "$unknown"}),
    "DirectCallService/StartDirectCall": (
        REJECTED,
        {
            "call_id": "$unknown",
            "spec": {"tool_name": "$tool", "messages": [{"role": "user", "content": "hello"}]},
        },
    ),
    "DirectCallService/MakeDirectCall": (
        REJECTED,
        {
            "start": {
                "call_id": "$unknown",
                "spec": {"tool_name": "$tool", "messages": [{"role": "user", "content": "hello"}]},
            }
        },
    ),
    "SecretService/ListSecrets": (OWN, {}),
    "SecretService/ListUserSecrets": (OWN, {}),
    "SecretService/DeleteSecret": (REJECTED, {"name": "$secret"}),
    "SecretService/DeleteUserSecret": (REJECTED, {"name": "$secret"}),
    # It does not end: tests/integration/episodes/test_tenant_events.py reads it as a stranger.
    "TenantEventService/WatchTenantEvents": (NAMELESS, {"after": "$tool"}),
    "WebhookService/ListWebhooks": (OWN, {}),
    "WebhookService/DeleteWebhook": (REJECTED, {"id": "$webhook"}),
    "WebhookService/ListWebhookDeliveries": (OWN, {"webhook_id": "$webhook"}),
    "WebhookService/ReplayWebhookDeliveries": (REJECTED, {"delivery_ids": ["1"]}),
    "ToolRegistryService/GetTool": (REJECTED, {"name": "$tool"}),
    "ToolRegistryService/ListToolVersions": (REJECTED, {"name": "$tool"}),
    "ToolRegistryService/DeprecateTool": (REJECTED, {"name": "$tool"}),
    "ToolRegistryService/DeleteTool": (REJECTED, {"name": "$tool"}),
    "ToolRegistryService/ListTools": (OWN, {}),
    "ToolRegistryService/SearchTools": (OWN, {"query": "adds"}),
    "ToolRegistryService/AwaitChange": (OWN, {}),
    "ToolRegistryService/ResolveToolset": (REJECTED, {"tool_names": ["$tool"]}),
    "ToolRegistryService/RecordToolFacts": (
        REJECTED,
        {"reporter": "r", "facts": [{"tool_name": "$tool", "sample_count": 1}]},
    ),
    "ToolRegistryService/ListToolFacts": (OWN, {}),
    "ToolRegistryService/UpdateFollowedTool": (
        REJECTED,
        {"server_id": "$unknown", "vanished_name": "$tool"},
    ),
    "ToolRegistryService/EndFollowing": (NAMELESS, {}),
    "ToolRegistryService/AllowFollowing": (NAMELESS, {}),
    "ToolRegistryService/ReadOpenApi": (NAMELESS, {"document": "{}"}),
    "SandboxService/RunCode": (NOT_SERVED, {}),
    "DescriptionService/ProposeDescription": (
        REJECTED,
        {"id": "$unknown", "tool_name": "$tool", "writer_tool": "$tool"},
    ),
    "DescriptionService/ListProposals": (OWN, {}),
    "DescriptionService/ApproveProposal": (REJECTED, {"id": "$unknown"}),
    "DescriptionService/RejectProposal": (REJECTED, {"id": "$unknown"}),
    "PolicyService/GetPolicy": (REJECTED, {"name": "$policy"}),
    "PolicyService/ActivatePolicy": (REJECTED, {"name": "$policy"}),
    "PolicyService/BindPolicy": (REJECTED, {"policy": "$policy", "principal": "team:search"}),
    "PolicyService/UnbindPolicy": (REJECTED, {"policy": "$policy", "principal": "team:search"}),
    "PolicyService/DeletePolicy": (REJECTED, {"name": "$policy"}),
    "PolicyService/ExplainToolset": (REJECTED, {"policy": "$policy"}),
    "PolicyService/CheckCalls": (
        REJECTED,
        {"policy": "$policy", "calls": [{"tool_name": "$tool", "tool_version": 1}]},
    ),
    "PolicyService/DryRunPolicy": (REJECTED, {"policy": "$policy"}),
    "PolicyService/ReportAdherence": (OWN, {}),
    "PolicyService/ListPolicies": (OWN, {}),
    "PolicyService/ListActivations": (OWN, {}),
    "PolicyService/ListPolicyBindings": (OWN, {}),
    "PolicyService/RecordLearningStep": (
        REJECTED,
        {
            "step": {
                "policy": "$policy",
                "cycle": "$unknown",
                "stage": "LEARNING_STAGE_PROMOTED",
                "model": "rule/worth",
            }
        },
    ),
    "PolicyService/ListLearningSteps": (OWN, {"policy": "$policy"}),
    "BudgetService/GetBudget": (REJECTED, {"id": "$budget"}),
    "BudgetService/ListBudgetWindows": (REJECTED, {"id": "$budget"}),
    "BudgetService/UpdateBudget": (
        REJECTED,
        {"id": "$budget", "update_mask": "softLimits"},
    ),
    "BudgetService/RaiseBudget": (
        REJECTED,
        {
            "id": "$budget",
            "raise_id": "01890a5d-ac96-774b-bcce-b302099a8057",
            "amount": {"currency_code": "USD", "amount": "0"},
            "reason": "$unknown",
        },
    ),
    "BudgetService/CloseBudget": (REJECTED, {"id": "$budget"}),
    "BudgetService/ListBudgets": (OWN, {}),
    "BudgetService/ListAlerts": (OWN, {"budget_id": "$budget"}),
    "CostLedgerService/Adjust": (
        REJECTED,
        {
            "key": "$unknown/adjust",
            "sequence": 999_999,
            "change": {"currency_code": "USD", "amount": "-1"},
            "reason": "mine",
        },
    ),
    "CostLedgerService/Settle": (REJECTED, {"key": "$hold", "usage": USAGE}),
    "CostLedgerService/ReleaseEpisode": (OWN, EPISODE),
    "CostLedgerService/ListEntries": (OWN, EPISODE),
    "CostLedgerService/ReportSpend": (OWN, {"group_by": ["SPEND_DIMENSION_TOOL"]}),
    "PriceBookService/ListPrices": (OWN, {}),
    "PriceBookService/GetEffectivePrices": (OWN, {"skus": ["$sku"]}),
    "CorpusService/ListCorpora": (OWN, {}),
    "CorpusService/ListDocuments": (REJECTED, {"corpus": "$corpus"}),
    "CorpusService/Search": (REJECTED, {"corpus": "$corpus", "query": "secret"}),
    "CorpusService/DeleteDocuments": (REJECTED, {"corpus": "$corpus", "ids": ["$document"]}),
    "CorpusService/DeleteCorpus": (REJECTED, {"corpus": "$corpus"}),
    "ToolAdapterService/Invoke": (
        REJECTED,
        {
            "key": "$hold",
            **EPISODE,
            "tool_name": "$tool",
            "tool_version": 1,
            "arguments_json": "{}",
        },
    ),
    "ToolAdapterService/InvokeStreaming": (
        REJECTED,
        {
            "call": {
                "key": "$hold",
                **EPISODE,
                "tool_name": "$tool",
                "tool_version": 1,
                "arguments_json": "{}",
            }
        },
    ),
    "ToolAdapterService/CloseEpisode": (OWN, EPISODE),
    "ToolAdapterService/MeasurePdf": (NAMELESS, {}),
    "ToolAdapterService/CheckAnswer": (OWN, {"answer": "hello"}),
    "ToolAdapterService/DiscoverMcpTools": (NAMELESS, {}),
    "ToolAdapterService/ListFollowedMcpServers": (OWN, {}),
    "ToolAdapterService/UnfollowMcpServer": (REJECTED, {"id": "$unknown"}),
    "ToolAdapterService/FollowMcpServer": (NAMELESS, {}),
    "OrchestratorService/NextAction": (OWN, {"key": "$unknown/1/model/0", "task": "hello"}),
    "OrchestratorService/NextActionStreaming": (
        OWN,
        {"action": {"key": "$unknown/1/model/0", "task": "hello"}},
    ),
    "OrchestratorService/CountTokens": (NAMELESS, {}),
    "OrchestratorService/ListModels": (OWN, {}),
    "ModelVersionService/ListModelVersions": (REJECTED, {}),
    "ModelVersionService/GetModelVersion": (REJECTED, {"name": "policy-demo-v1"}),
    "ModelVersionService/ListTrainingSteps": (REJECTED, {"name": "policy-demo-v1"}),
    "ModelVersionService/PromoteModelVersion": (REJECTED, {"name": "policy-demo-v1"}),
    "ModelVersionService/RollBackModelVersion": (REJECTED, {"name": "policy-demo-v1"}),
    "AuditService/ExplainEntry": (REJECTED, {"entry": "1", "tenant": "acme"}),
    "AuditService/ProveEntry": (REJECTED, {"entry": "1", "tenant": "acme"}),
    "AuditService/VerifyLedger": (REJECTED, {"tenant": "acme"}),
    "AuditService/ListAnchors": (OWN, {}),
    "AuditService/ListCharges": (REJECTED, {"month": "2026-11", "tenant": "acme"}),
    "AuditService/ExportCharges": (
        REJECTED,
        {"format": "EXPORT_FORMAT_CHARGES", "tenant": "acme"},
    ),
    "AuditService/AddInvoiceLines": (NAMELESS, {}),
    "AuditService/ReconcileInvoice": (REJECTED, {"invoice_id": "$unknown"}),
    "AuditService/ListInvoiceMatches": (REJECTED, {"invoice_id": "$unknown"}),
    "AuditService/SimulatePrices": (REJECTED, {"specs": [PRICE], "tenant": "acme"}),
    "ToolAdapterService/DeliverWebhook": (
        OWN,
        {"message_id": "m", "url": "http://127.0.0.1:1/", "secret": {"name": "$webhook"}},
    ),
    # From here on the stranger makes things of its own under the owner's names.
    "ToolRegistryService/RegisterTool": (OWN, {"spec": TOOL}),
    "ToolRegistryService/RegisterTools": (OWN, {"specs": [TOOL]}),
    "PolicyService/CreatePolicy": (OWN, {"spec": SPEC}),
    "BudgetService/CreateBudget": (OWN, {"budget": BUDGET}),
    "PriceBookService/CreatePrices": (OWN, {"specs": [PRICE]}),
    "PriceBookService/DeletePrices": (REJECTED, {"ids": ["$unknown"]}),
    "CorpusService/PutDocuments": (
        OWN,
        {"corpus": "$corpus", "documents": [{"id": "$document", "content": "my own"}]},
    ),
    "SecretService/PutSecret": (OWN, {"name": "$secret", "value": "an-0wn-value"}),
    "SecretService/PutUserSecret": (
        OWN,
        {"name": "$secret", "value": "an-0wn-value", "hosts": ["example.com"]},
    ),
    "WebhookService/PutWebhook": (
        OWN,
        {"id": "$webhook", "url": "http://127.0.0.1:1/", "secret": {"name": "hooks"}},
    ),
    "CostLedgerService/ApplyEmbeddings": (
        OWN,
        {
            "operations": [
                {
                    "record": {
                        "key": "embeddings/$unknown",
                        "subject": SUBJECT,
                        "sku": "embeddings/$sku",
                        "usage": USAGE,
                    }
                }
            ]
        },
    ),
    "CostLedgerService/Apply": (OWN, {"operations": [{"reserve": HOLD}]}),
    "CostLedgerService/ClosePeriod": (
        OWN,
        {"key": "$unknown/close", "end_time": "2020-01-01T00:00:00Z"},
    ),
}

CHAT = {"messages": [{"role": "user", "content": "hello"}]}
# Routes of the gateway's own; those of the table are tried with their RPC's case.
ROUTES: dict[tuple[str, str], Case] = {
    ("GET", "/v1/models"): (OWN, {}),
    ("GET", "/v1/models/{model}"): (REJECTED, {"model": "podium:$policy"}),
    ("POST", "/v1/chat/completions"): (REJECTED, {"model": "podium:$policy", **CHAT}),
    ("POST", "/v1/responses"): (
        REJECTED,
        {"model": "podium", "input": "what was it?", "previous_response_id": "$response"},
    ),
    ("GET", "/v1/responses/{response_id}"): (REJECTED, {"response_id": "$response"}),
    ("POST", "/v1/responses/{response_id}/cancel"): (REJECTED, {"response_id": "$response"}),
    ("POST", "/v1/embeddings"): (REJECTED, {"model": "tool/$tool", "input": "hello"}),
    ("POST", "/v1/messages"): (REJECTED, {"model": "podium:$policy", "max_tokens": 9, **CHAT}),
    ("POST", "/v1/messages/count_tokens"): (REJECTED, {"model": "podium:$policy", **CHAT}),
    ("GET", "/v1/api-keys"): (OWN, {}),
    ("POST", "/v1/api-keys"): (OWN, {"subject": "mallory", "roles": ["developer"]}),
    ("POST", "/v1/api-keys/{key_id}/rotate"): (REJECTED, {"key_id": "$key"}),
    ("POST", "/v1/api-keys/{key_id}/revoke"): (REJECTED, {"key_id": "$key"}),
    ("POST", "/v1/session"): (OWN, {}),
    ("GET", "/v1/session"): (OWN, {}),
    ("DELETE", "/v1/session"): (OWN, {}),
    ("GET", "/v1/roles"): (OWN, {}),
    ("GET", "/v1/platform/status"): (REJECTED, {}),
    ("GET", "/v1/views"): (OWN, {}),
    ("POST", "/v1/views"): (OWN, {"name": "mine", "query": "range=day"}),
    ("DELETE", "/v1/views/{view_id}"): (REJECTED, {"view_id": "$unknown"}),
    ("GET", "/v1/limits"): (OWN, {}),
    ("GET", "/v1/tenants/{tenant}/limits"): (REJECTED, {"tenant": "acme"}),
    ("PUT", "/v1/tenants/{tenant}/limits"): (REJECTED, {"tenant": "acme", "burst": 1}),
    ("DELETE", "/v1/tenants/{tenant}/limits"): (REJECTED, {"tenant": "acme"}),
    ("GET", "/v1/audit-log"): (OWN, {}),
}


def filled(values: Any, things: dict[str, str]) -> Any:
    match values:
        case dict():
            return {name: filled(inner, things) for name, inner in values.items()}
        case list():
            return [filled(inner, things) for inner in values]
        case str():
            return Template(values).substitute(things) if "$" in values else values
        case _:
            return values
