from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.models.chat_parameters import ChatParameters
from podium_kit.postgres.engine import autocommit
from tool_adapters.models import LlmModel

# Providers lift restrictions: each is tried again once a month.
FIND = text(
    """
    SELECT output_cap, caps_tried, without FROM learnt_parameters
    WHERE owner = :owner AND url = :url AND model = :model
        AND learn_time > now() - interval '30 days'
    """
)
# A tenant names as many models as it wants.
STORE = text(
    """
    INSERT INTO learnt_parameters (owner, url, model, output_cap, caps_tried, without)
    SELECT :owner, :url, :model, :output_cap, CAST(:caps_tried AS text[]), CAST(:without AS text[])
    WHERE (SELECT count(*) FROM learnt_parameters WHERE owner = :owner) < 1000
    ON CONFLICT (owner, url, model) DO UPDATE
    SET output_cap = excluded.output_cap, caps_tried = excluded.caps_tried,
        without = excluded.without, learn_time = now()
    """
)
FORGET = text(
    """
    DELETE FROM learnt_parameters
    WHERE owner = :owner AND learn_time <= now() - interval '30 days'
    """
)


class PostgresLearntParameters:
    """At most a thousand models of each owner."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find(self, owner: str, model: LlmModel) -> ChatParameters | None:
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(FIND, _key(owner, model))).one_or_none()
        if row is None:
            return None
        return ChatParameters(row.output_cap, frozenset(row.without), frozenset(row.caps_tried))

    async def store(self, owner: str, model: LlmModel, learnt: ChatParameters) -> None:
        values = {
            **_key(owner, model),
            "output_cap": learnt.cap,
            "caps_tried": sorted(learnt.caps_tried),
            "without": sorted(learnt.without),
        }
        async with autocommit(self._engine) as connection:
            await connection.execute(FORGET, {"owner": owner})
            await connection.execute(STORE, values)


def _key(owner: str, model: LlmModel) -> dict[str, str]:
    return {"owner": owner, "url": model.base_url, "model": model.model}
