import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from statistics import quantiles
from typing import Any

from bench.ledger.filled_journal import TENANTS, tenant_name
from bench.ledger.service import Service
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium_kit.rpc.identity import Scope
from podium_kit.wire import timestamp_to_proto

MONTH = timedelta(days=30)
ROWS_MAX = 1000
TENANT_REPORTS = 400
PLATFORM_REPORTS = 60
BY_DAY_AND_MODEL = (pb.SPEND_DIMENSION_DAY, pb.SPEND_DIMENSION_MODEL)
BY_MODEL = (pb.SPEND_DIMENSION_MODEL,)


class Reader:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._tenants = [service.token(tenant_name(number)) for number in range(TENANTS)]
        self._admin = service.token(tenant_name(0), Scope.PLATFORM_ADMIN)
        end = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self._span: dict[str, Any] = {
            "start_time": timestamp_to_proto(end - MONTH),
            "end_time": timestamp_to_proto(end),
        }

    async def tenant_month_ms(self, *group_by: Any, rows: int = ROWS_MAX) -> tuple[float, float]:
        """p50 and p95 of one tenant's month, all of it in one page."""
        request = pb.ReportSpendRequest(group_by=group_by, page_size=rows, **self._span)
        stub = self._service.stub
        return await _latencies_ms(
            lambda: stub.ReportSpend(request, metadata=random.choice(self._tenants)),
            TENANT_REPORTS,
        )

    async def platform_month_ms(self, *group_by: Any) -> tuple[float, float]:
        """p50 and p95 of every tenant's month."""
        request = pb.ReportSpendRequest(group_by=group_by, all_tenants=True, **self._span)
        stub = self._service.stub
        return await _latencies_ms(
            lambda: stub.ReportSpend(request, metadata=self._admin), PLATFORM_REPORTS
        )


async def _latencies_ms(ask: Callable[[], Awaitable[Any]], count: int) -> tuple[float, float]:
    latencies = []
    for number in range(count + count // 10):
        start = time.perf_counter()
        answer = await ask()
        if not answer.rows:
            raise RuntimeError("the report is empty; a fast answer to it says nothing")
        if number >= count // 10:  # the first tenth warms up
            latencies.append(1000 * (time.perf_counter() - start))
    centiles = quantiles(latencies, n=100)
    return centiles[49], centiles[94]
