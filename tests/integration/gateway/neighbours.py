from typing import Any

from podium.adapters.v1 import corpus_service_pb2 as corpus_pb
from podium.adapters.v1 import corpus_service_pb2_grpc as corpus_rpc
from podium.common.v1 import money_pb2
from podium.ledger.v1 import budget_service_pb2 as budget_pb
from podium.ledger.v1 import budget_service_pb2_grpc as budget_rpc
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import cost_ledger_service_pb2_grpc as ledger_rpc
from podium.ledger.v1 import price_book_service_pb2 as price_pb
from podium.ledger.v1 import price_book_service_pb2_grpc as price_rpc
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.orchestrator.v1 import orchestrator_service_pb2_grpc as orchestrator_rpc
from podium.registry.v1 import policy_pb2, tool_pb2, toolset_pb2
from podium.registry.v1 import policy_service_pb2 as policy_service_pb
from podium.registry.v1 import policy_service_pb2_grpc as policy_rpc
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from podium.registry.v1 import tool_registry_service_pb2_grpc as registry_rpc
from podium_kit.rpc.errors import NotFound
from podium_kit.rpc.identity import Scope, require_scope


class ToolNotFound(NotFound):
    pass


class PolicyNotFound(NotFound):
    pass


class Models(orchestrator_rpc.OrchestratorServiceServicer):
    NAMES = ("smollm2", "llama:8b")

    async def ListModels(
        self, request: orchestrator_pb.ListModelsRequest, context: Any
    ) -> orchestrator_pb.ListModelsResponse:
        place = int(request.page_token or 0)
        model = orchestrator_pb.Model(name=self.NAMES[place], is_default=place == 0)
        more = str(place + 1) if place + 1 < len(self.NAMES) else ""
        return orchestrator_pb.ListModelsResponse(models=[model], next_page_token=more)


class Policies(policy_rpc.PolicyServiceServicer):
    def __init__(self) -> None:
        self.specs = [policy_pb2.PolicySpec(name=name) for name in ("balanced", "cost-first")]

    async def ListPolicies(
        self, request: policy_service_pb.ListPoliciesRequest, context: Any
    ) -> policy_service_pb.ListPoliciesResponse:
        return policy_service_pb.ListPoliciesResponse(
            policies=[policy_pb2.Policy(spec=spec, version=1) for spec in self.specs]
        )

    async def GetPolicy(
        self, request: policy_service_pb.GetPolicyRequest, context: Any
    ) -> policy_service_pb.GetPolicyResponse:
        for spec in self.specs:
            if spec.name == request.name:
                policy = policy_pb2.Policy(spec=spec, version=1)
                return policy_service_pb.GetPolicyResponse(policy=policy)
        raise PolicyNotFound(f"there is no policy {request.name}", policy=request.name)

    async def CreatePolicy(
        self, request: policy_service_pb.CreatePolicyRequest, context: Any
    ) -> policy_service_pb.CreatePolicyResponse:
        self.specs.append(request.spec)
        policy = policy_pb2.Policy(spec=request.spec, version=1)
        return policy_service_pb.CreatePolicyResponse(policy=policy, created=True)


class Tools(registry_rpc.ToolRegistryServiceServicer):
    def __init__(self) -> None:
        self.tools: dict[str, tool_pb2.Tool] = {}
        self.listed: list[registry_pb.ListToolsRequest] = []
        # What the policy allows besides the three of every test.
        self.more: list[toolset_pb2.ResolvedTool] = []

    async def RegisterTool(
        self, request: registry_pb.RegisterToolRequest, context: Any
    ) -> registry_pb.RegisterToolResponse:
        require_scope(Scope.TOOLS_WRITE)
        tool = tool_pb2.Tool(spec=request.spec, version=1)
        if not request.validate_only:
            self.tools[request.spec.name] = tool
        return registry_pb.RegisterToolResponse(tool=tool, created=True)

    async def GetTool(
        self, request: registry_pb.GetToolRequest, context: Any
    ) -> registry_pb.GetToolResponse:
        if request.name not in self.tools:
            raise ToolNotFound(f"there is no tool {request.name}", tool=request.name)
        return registry_pb.GetToolResponse(tool=self.tools[request.name])

    async def ResolveToolset(
        self, request: registry_pb.ResolveToolsetRequest, context: Any
    ) -> registry_pb.ResolveToolsetResponse:
        expert = toolset_pb2.ResolvedTool(
            name="expert", kind=tool_pb2.TOOL_KIND_LLM, model_aliases=["small", "large"]
        )
        asked = toolset_pb2.ResolvedTool(
            name="asked", kind=tool_pb2.TOOL_KIND_LLM, needs_approval=True
        )
        sums = toolset_pb2.ResolvedTool(name="calculator", kind=tool_pb2.TOOL_KIND_FUNCTION)
        toolset = toolset_pb2.Toolset(tools=[expert, asked, sums, *self.more])
        return registry_pb.ResolveToolsetResponse(toolset=toolset)

    async def ListTools(
        self, request: registry_pb.ListToolsRequest, context: Any
    ) -> registry_pb.ListToolsResponse:
        self.listed.append(request)
        return registry_pb.ListToolsResponse(tools=self.tools.values())


class Ledger(ledger_rpc.CostLedgerServiceServicer):
    async def ReportSpend(
        self, request: ledger_pb.ReportSpendRequest, context: Any
    ) -> ledger_pb.ReportSpendResponse:
        if list(request.group_by) != [ledger_pb.SPEND_DIMENSION_TOOL]:
            return ledger_pb.ReportSpendResponse()
        return ledger_pb.ReportSpendResponse(
            rows=[_spend("llm", "0.0184", 9), _spend("calculator", "0.00042", 42)]
        )

    async def ListEntries(
        self, request: ledger_pb.ListEntriesRequest, context: Any
    ) -> ledger_pb.ListEntriesResponse:
        raise RuntimeError("SELECT of a secret table failed")


def _spend(tool: str, amount: str, calls: int) -> ledger_pb.SpendRow:
    money = money_pb2.Money(currency_code="USD", amount=amount)
    return ledger_pb.SpendRow(values=[tool], amounts=[money], call_count=calls)


class Prices(price_rpc.PriceBookServiceServicer):
    async def GetEffectivePrices(
        self, request: price_pb.GetEffectivePricesRequest, context: Any
    ) -> price_pb.GetEffectivePricesResponse:
        specs = [price_pb.PriceSpec(sku=sku, start_time=request.at) for sku in request.skus]
        prices = {spec.sku: price_pb.Price(spec=spec) for spec in specs}
        return price_pb.GetEffectivePricesResponse(prices=prices)


class BudgetNotFound(NotFound):
    pass


class Budgets(budget_rpc.BudgetServiceServicer):
    async def GetBudget(
        self, request: budget_pb.GetBudgetRequest, context: Any
    ) -> budget_pb.GetBudgetResponse:
        raise BudgetNotFound(f"there is no budget {request.id}")

    async def CloseBudget(
        self, request: budget_pb.CloseBudgetRequest, context: Any
    ) -> budget_pb.CloseBudgetResponse:
        return budget_pb.CloseBudgetResponse(budget=budget_pb.Budget(id=request.id))


class Corpora(corpus_rpc.CorpusServiceServicer):
    def __init__(self) -> None:
        self.documents: dict[str, list[corpus_pb.Document]] = {}

    async def PutDocuments(
        self, request: corpus_pb.PutDocumentsRequest, context: Any
    ) -> corpus_pb.PutDocumentsResponse:
        self.documents.setdefault(request.corpus, []).extend(request.documents)
        return corpus_pb.PutDocumentsResponse(changed_count=len(request.documents))

    async def Search(
        self, request: corpus_pb.SearchRequest, context: Any
    ) -> corpus_pb.SearchResponse:
        found = [
            corpus_pb.Hit(document_id=each.id, passage=each.content)
            for each in self.documents.get(request.corpus, [])
            if request.query in each.content
        ]
        return corpus_pb.SearchResponse(hits=found[: request.top_k or 5])
