from cost_ledger.spend.models import SpendReport, SpendRow
from cost_ledger.spend.store import RollupStore, SpendStore


class SpendReports:
    """Answers reports as if the whole journal was read."""

    def __init__(self, store: SpendStore, rollups: RollupStore) -> None:
        self._store = store
        self._rollups = rollups

    async def page(self, tenant: str, report: SpendReport) -> list[SpendRow]:
        # The sums come first: reading what they lack from the journal would cost more.
        if report.all_tenants:
            await self._rollups.advance()
            return await self._store.platform_spend(tenant, report)
        if report.from_sums:
            await self._rollups.advance_of([tenant])
        return await self._store.spend(tenant, report)
