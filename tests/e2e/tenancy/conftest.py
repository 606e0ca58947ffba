import pytest_asyncio

from e2e.conftest import WholePlatform
from e2e.tenancy.two_tenants import TwoTenants, own_something


@pytest_asyncio.fixture(scope="session")
async def tenants(whole: WholePlatform) -> TwoTenants:
    return await own_something(whole.platform)
