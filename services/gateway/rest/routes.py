"""The REST API as one table: a line per route, transcoded to the RPC it names.

Path parameters are fields of the request message. The rest of the message comes from
the JSON body for POST, PUT and PATCH, from the query for GET and DELETE.
"""

from dataclasses import dataclass

EPISODES = "podium.episodes.v1.EpisodeService"
DIRECT_CALLS = "podium.episodes.v1.DirectCallService"
DEAD_LETTERS = "podium.episodes.v1.DeadLetterService"
EVALUATIONS = "podium.episodes.v1.EvaluationService"
TENANT_EVENTS = "podium.episodes.v1.TenantEventService"
WEBHOOKS = "podium.episodes.v1.WebhookService"
TOOLS = "podium.registry.v1.ToolRegistryService"
POLICIES = "podium.registry.v1.PolicyService"
DESCRIPTIONS = "podium.registry.v1.DescriptionService"
LEDGER = "podium.ledger.v1.CostLedgerService"
PRICES = "podium.ledger.v1.PriceBookService"
BUDGETS = "podium.ledger.v1.BudgetService"
AUDIT = "podium.ledger.v1.AuditService"
ADAPTERS = "podium.adapters.v1.ToolAdapterService"
CORPORA = "podium.adapters.v1.CorpusService"
SECRETS = "podium.adapters.v1.SecretService"
VERSIONS = "podium.orchestrator.v1.ModelVersionService"


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    service: str
    rpc: str
    # Request field filled with a new episode's id when the caller leaves it out.
    new_episode_id: str = ""
    # Whether a stream is answered as JSON lines; else it is one of server-sent events.
    json_lines: bool = False


ROUTES = (
    Route("POST", "/v1/episodes", EPISODES, "StartEpisode", new_episode_id="episode_id"),
    Route("GET", "/v1/episodes", EPISODES, "ListEpisodes"),
    Route("GET", "/v1/episode-summary", EPISODES, "SummarizeEpisodes"),
    Route("GET", "/v1/episodes/{episode_id}", EPISODES, "GetEpisode"),
    Route("GET", "/v1/episodes/{episode_id}/events", EPISODES, "WatchEpisode"),
    Route("POST", "/v1/episodes/{episode_id}/cancel", EPISODES, "CancelEpisode"),
    Route("POST", "/v1/episodes/{episode_id}/approve", EPISODES, "ApproveToolCall"),
    Route("GET", "/v1/approvals", EPISODES, "ListApprovals"),
    Route("POST", "/v1/episodes/{episode_id}/tool-results", EPISODES, "AnswerToolCalls"),
    Route("POST", "/v1/episodes/{episode_id}/feedback", EPISODES, "GiveFeedback"),
    Route("GET", "/v1/episodes/{episode_id}/trajectory", EPISODES, "GetTrajectory"),
    Route("POST", "/v1/direct-calls", DIRECT_CALLS, "StartDirectCall"),
    Route("GET", "/v1/direct-calls/{call_id}", DIRECT_CALLS, "GetDirectCall"),
    Route("POST", "/v1/evaluations", EVALUATIONS, "CreateEvaluation"),
    Route("GET", "/v1/evaluations", EVALUATIONS, "ListEvaluations"),
    Route("GET", "/v1/evaluations/{evaluation_id}", EVALUATIONS, "GetEvaluation"),
    Route("PATCH", "/v1/evaluations/{evaluation_id}", EVALUATIONS, "UpdateEvaluation"),
    Route("GET", "/v1/evaluations/{evaluation_id}/trials", EVALUATIONS, "ListTrials"),
    Route("POST", "/v1/evaluations/{evaluation_id}/verdict", EVALUATIONS, "RecordVerdict"),
    Route("POST", "/v1/evaluations/{evaluation_id}/verdicts", EVALUATIONS, "RecordVerdicts"),
    Route("GET", "/v1/evaluations/{evaluation_id}/verdicts", EVALUATIONS, "ListVerdicts"),
    Route("PUT", "/v1/evaluations/{evaluation_id}/report", EVALUATIONS, "RecordEvaluationReport"),
    Route("GET", "/v1/evaluations/{evaluation_id}/report", EVALUATIONS, "GetEvaluationReport"),
    Route("POST", "/v1/judge-calibrations", EVALUATIONS, "RecordJudgeCalibration"),
    Route("GET", "/v1/judge-calibrations", EVALUATIONS, "ListJudgeCalibrations"),
    Route("POST", "/v1/live-evaluations", EVALUATIONS, "StartLiveEvaluation"),
    Route("POST", "/v1/live-evaluations/{evaluation_id}/stop", EVALUATIONS, "StopLiveEvaluation"),
    Route("GET", "/v1/events", TENANT_EVENTS, "WatchTenantEvents"),
    Route("GET", "/v1/dead-letters", DEAD_LETTERS, "ListDeadLetters"),
    Route("POST", "/v1/dead-letters/redrive", DEAD_LETTERS, "RedriveDeadLetters"),
    Route("GET", "/v1/webhooks", WEBHOOKS, "ListWebhooks"),
    Route("PUT", "/v1/webhooks/{id}", WEBHOOKS, "PutWebhook"),
    Route("DELETE", "/v1/webhooks/{id}", WEBHOOKS, "DeleteWebhook"),
    Route("GET", "/v1/webhook-deliveries", WEBHOOKS, "ListWebhookDeliveries"),
    Route("POST", "/v1/webhook-deliveries/replay", WEBHOOKS, "ReplayWebhookDeliveries"),
    Route("GET", "/v1/secrets", SECRETS, "ListSecrets"),
    Route("PUT", "/v1/secrets/{name}", SECRETS, "PutSecret"),
    Route("DELETE", "/v1/secrets/{name}", SECRETS, "DeleteSecret"),
    Route("GET", "/v1/user-secrets", SECRETS, "ListUserSecrets"),
    Route("PUT", "/v1/user-secrets/{name}", SECRETS, "PutUserSecret"),
    Route("DELETE", "/v1/user-secrets/{name}", SECRETS, "DeleteUserSecret"),
    Route("POST", "/v1/tools", TOOLS, "RegisterTool"),
    Route("GET", "/v1/tools", TOOLS, "ListTools"),
    Route("POST", "/v1/tools/batch", TOOLS, "RegisterTools"),
    Route("POST", "/v1/tools/discover-mcp", ADAPTERS, "DiscoverMcpTools"),
    Route("POST", "/v1/followed-mcp-servers", ADAPTERS, "FollowMcpServer"),
    Route("GET", "/v1/followed-mcp-servers", ADAPTERS, "ListFollowedMcpServers"),
    Route("DELETE", "/v1/followed-mcp-servers/{id}", ADAPTERS, "UnfollowMcpServer"),
    Route("GET", "/v1/tool-search", TOOLS, "SearchTools"),
    Route("POST", "/v1/tools/read-openapi", TOOLS, "ReadOpenApi"),
    Route("GET", "/v1/tools/{name}", TOOLS, "GetTool"),
    Route("DELETE", "/v1/tools/{name}", TOOLS, "DeleteTool"),
    Route("GET", "/v1/tools/{name}/versions", TOOLS, "ListToolVersions"),
    Route("POST", "/v1/tools/{name}/deprecate", TOOLS, "DeprecateTool"),
    Route("GET", "/v1/tool-facts", TOOLS, "ListToolFacts"),
    Route("POST", "/v1/tool-proposals", DESCRIPTIONS, "ProposeDescription"),
    Route("GET", "/v1/tool-proposals", DESCRIPTIONS, "ListProposals"),
    Route("POST", "/v1/tool-proposals/{id}/approve", DESCRIPTIONS, "ApproveProposal"),
    Route("POST", "/v1/tool-proposals/{id}/reject", DESCRIPTIONS, "RejectProposal"),
    Route("POST", "/v1/policies", POLICIES, "CreatePolicy"),
    Route("GET", "/v1/policies", POLICIES, "ListPolicies"),
    Route("POST", "/v1/policies/explain", POLICIES, "ExplainToolset"),
    Route("POST", "/v1/policies/dry-run", POLICIES, "DryRunPolicy"),
    Route("POST", "/v1/policies/report", POLICIES, "ReportAdherence"),
    Route("GET", "/v1/policy-activations", POLICIES, "ListActivations"),
    Route("GET", "/v1/policy-bindings", POLICIES, "ListPolicyBindings"),
    Route("POST", "/v1/policies/{policy}/bind", POLICIES, "BindPolicy"),
    Route("POST", "/v1/policies/{policy}/unbind", POLICIES, "UnbindPolicy"),
    Route("POST", "/v1/learning-steps", POLICIES, "RecordLearningStep"),
    Route("GET", "/v1/learning-steps", POLICIES, "ListLearningSteps"),
    Route("GET", "/v1/policies/{name}", POLICIES, "GetPolicy"),
    Route("DELETE", "/v1/policies/{name}", POLICIES, "DeletePolicy"),
    Route("POST", "/v1/policies/{name}/activate", POLICIES, "ActivatePolicy"),
    Route("GET", "/v1/spend", LEDGER, "ReportSpend"),
    Route("GET", "/v1/entries", LEDGER, "ListEntries"),
    Route("POST", "/v1/budgets", BUDGETS, "CreateBudget"),
    Route("GET", "/v1/budgets", BUDGETS, "ListBudgets"),
    # Before the budget itself, whose id may hold a slash.
    Route("GET", "/v1/budgets/{id}/windows", BUDGETS, "ListBudgetWindows"),
    Route("GET", "/v1/budgets/{id}", BUDGETS, "GetBudget"),
    Route("PATCH", "/v1/budgets/{id}", BUDGETS, "UpdateBudget"),
    Route("POST", "/v1/budgets/{id}/raise", BUDGETS, "RaiseBudget"),
    Route("POST", "/v1/budgets/{id}/close", BUDGETS, "CloseBudget"),
    Route("GET", "/v1/budget-alerts", BUDGETS, "ListAlerts"),
    Route("POST", "/v1/prices", PRICES, "CreatePrices"),
    Route("GET", "/v1/prices", PRICES, "ListPrices"),
    Route("DELETE", "/v1/prices", PRICES, "DeletePrices"),
    Route("GET", "/v1/prices/effective", PRICES, "GetEffectivePrices"),
    Route("GET", "/v1/audit/explain", AUDIT, "ExplainEntry"),
    Route("GET", "/v1/audit/verify", AUDIT, "VerifyLedger"),
    Route("GET", "/v1/audit/anchors", AUDIT, "ListAnchors"),
    Route("GET", "/v1/audit/proof", AUDIT, "ProveEntry"),
    Route("GET", "/v1/audit/charges", AUDIT, "ListCharges"),
    Route("GET", "/v1/audit/export", AUDIT, "ExportCharges", json_lines=True),
    Route("POST", "/v1/audit/adjust", LEDGER, "Adjust"),
    Route("POST", "/v1/audit/settle", LEDGER, "Settle"),
    Route("POST", "/v1/audit/close", LEDGER, "ClosePeriod"),
    Route("POST", "/v1/audit/simulate", AUDIT, "SimulatePrices"),
    Route("POST", "/v1/invoices", AUDIT, "AddInvoiceLines"),
    Route("POST", "/v1/invoices/{invoice_id}/reconcile", AUDIT, "ReconcileInvoice"),
    Route("GET", "/v1/invoices/{invoice_id}/matches", AUDIT, "ListInvoiceMatches"),
    Route("GET", "/v1/corpora", CORPORA, "ListCorpora"),
    Route("DELETE", "/v1/corpora/{corpus}", CORPORA, "DeleteCorpus"),
    Route("GET", "/v1/corpora/{corpus}/documents", CORPORA, "ListDocuments"),
    Route("PUT", "/v1/corpora/{corpus}/documents", CORPORA, "PutDocuments"),
    Route("DELETE", "/v1/corpora/{corpus}/documents", CORPORA, "DeleteDocuments"),
    Route("GET", "/v1/corpora/{corpus}/search", CORPORA, "Search"),
    Route("GET", "/v1/model-versions", VERSIONS, "ListModelVersions"),
    Route("GET", "/v1/model-versions/{name}", VERSIONS, "GetModelVersion"),
    Route("GET", "/v1/model-versions/{name}/training-steps", VERSIONS, "ListTrainingSteps"),
    Route("POST", "/v1/model-versions/{name}/promote", VERSIONS, "PromoteModelVersion"),
    Route("POST", "/v1/model-versions/{name}/roll-back", VERSIONS, "RollBackModelVersion"),
)
