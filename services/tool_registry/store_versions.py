from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

CHANNEL = "catalogue"
BUMP = text(
    """
    UPDATE catalogue_version SET version = version + 1
    RETURNING version, pg_notify('catalogue', '')
    """
)
BUMP_FACTS = text("UPDATE catalogue_version SET facts_version = facts_version + 1")


async def bump_catalogue(connection: AsyncConnection) -> int:
    """The number of this change, which is announced; every process reads on from the last it has
    seen.

    The row stays locked until the transaction ends: writers take turns, and changes
    become visible in the order of their numbers.
    """
    return int((await connection.execute(BUMP)).scalar_one())


async def bump_facts(connection: AsyncConnection) -> None:
    await connection.execute(BUMP_FACTS)
