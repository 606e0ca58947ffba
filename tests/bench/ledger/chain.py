"""Measures what the hash chain costs: the same posts with it and without it, by turns.

Two servers share the database, one of them with a chain that hashes nothing. They are
compared by the server's processor time for a post: by the clock, everything else the machine
does would be in the difference.
"""

from statistics import median

from bench.ledger.service import TENANTS, Service, running_service

ROUNDS = 5
SECONDS = 3.0


async def chain_share(service_url: str) -> float:
    async with (
        running_service(service_url) as chained,
        running_service(service_url, "bench.ledger.unchained") as unchained,
    ):
        for service in (chained, unchained):
            await service.load(service.post, TENANTS, seconds=2.0)
        shares = [
            await _cpu_s_per_post(chained) / await _cpu_s_per_post(unchained) for _ in range(ROUNDS)
        ]
    return median(shares) - 1


async def _cpu_s_per_post(service: Service) -> float:
    before = service.cpu_s()
    load = await service.load(service.post, TENANTS, seconds=SECONDS)
    return (service.cpu_s() - before) / load.count
