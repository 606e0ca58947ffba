from collections.abc import Iterable

from podium_kit.rpc.identity import current_identity
from tool_registry.errors import InvalidPolicy, UnpricedModel
from tool_registry.models import PLATFORM, PolicySpec, ToolSpec, UnknownPriceRule
from tool_registry.policies.compiled import Circumstances, rejection
from tool_registry.policies.floors import owner_of
from tool_registry.policies.names import check_weighed_tools, unmatched_names
from tool_registry.tools.catalogue import Catalogues
from tool_registry.tools.store import ToolStore
from tool_registry.toolsets.clients import LedgerBudgets
from tool_registry.toolsets.price_cache import PriceCache

# Of a model whose price is known, so that the rules of selection alone decide.
PRICED = Circumstances(price_known=True, worst_case=None, latency_p95_s=None)


class BudgetedModels:
    """Rejects models without a price that a policy admits under a budget.

    Their calls would pass the budget uncounted, however much they cost.
    """

    def __init__(self, prices: PriceCache) -> None:
        self._prices = prices

    async def check(self, policies: Iterable[PolicySpec], tools: Iterable[ToolSpec]) -> None:
        """Raises UnpricedModel for the first of them."""
        admitting = [
            policy
            for policy in policies
            if policy.budget_ids and policy.unknown_price is UnknownPriceRule.ADMIT
        ]
        if not admitting:
            return
        models = [spec for spec in tools if spec.kind.has_models]
        skus = frozenset(sku for spec in models for sku in spec.skus)
        known = (await self._prices.effective(current_identity().tenant, skus)).by_sku
        for spec in models:
            for place, choice in enumerate(spec.choices):
                if choice.sku in known:
                    continue
                for policy in admitting:
                    if not rejection(policy, spec, choice, PRICED):
                        field = f"connection.{spec.kind.name}.models[{place}].sku"
                        model = f"{field} of {spec.name} ({choice.alias})"
                        raise UnpricedModel(model, choice.sku, policy.name, policy.budget_ids[0])


class PolicyValidator:
    """Rejects a policy that no episode could run under, and notices guards that match nothing."""

    def __init__(
        self, tools: ToolStore, catalogues: Catalogues, prices: PriceCache, budgets: LedgerBudgets
    ) -> None:
        self._tools = tools
        self._catalogues = catalogues
        self._prices = prices
        self._budgets = budgets
        self._models = BudgetedModels(prices)

    async def check(self, policy: PolicySpec) -> list[str]:
        tenant = current_identity().tenant
        versions = await self._tools.versions()
        tools = (await self._catalogues.of(tenant, versions.catalogue)).tools
        check_weighed_tools(policy.preferences, tools.current)
        if policy.price_ceiling is not None:
            await self._check_currency(policy, tenant, tools.skus)
        # Budgets of the platform's floor are those of each tenant that it binds.
        if policy.budget_ids and owner_of(policy.name, tenant) != PLATFORM:
            for budget_id in await self._budgets.missing(policy.budget_ids):
                raise InvalidPolicy(
                    f"budget_ids names {budget_id}, and there is no such budget; create it first "
                    "(`podium budgets create`): every episode under the policy would fail"
                )
        await self._models.check([policy], (tool.spec for tool in tools.current))
        notices = unmatched_names(policy, tools.current)
        if policy.price_ceiling is not None and not policy.price_ceiling.amount:
            notices.append("price_ceiling is 0, so only tools that cost nothing are allowed")
        return notices

    async def _check_currency(self, policy: PolicySpec, tenant: str, skus: frozenset[str]) -> None:
        assert policy.price_ceiling is not None
        prices = (await self._prices.effective(tenant, skus)).by_sku
        known = {price.currency_code for price in prices.values()}
        if known and policy.price_ceiling.currency_code not in known:
            raise InvalidPolicy(
                f"price_ceiling is in {policy.price_ceiling.currency_code}, and no price is; "
                f"write it in {', '.join(sorted(known))}"
            )
