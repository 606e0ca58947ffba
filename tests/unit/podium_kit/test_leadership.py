"""A connection that asked for the lock is kept with the lock, and otherwise let go."""

from unittest.mock import AsyncMock, MagicMock

import pytest

from podium_kit.postgres.leadership import Leadership


def leadership_on(connection: AsyncMock) -> Leadership:
    engine = MagicMock()
    engine.execution_options.return_value.connect = AsyncMock(return_value=connection)
    return Leadership(engine, 1)


async def test_a_connection_that_could_not_ask_for_the_lock_is_ended() -> None:
    connection = AsyncMock()
    connection.execute.side_effect = ConnectionResetError
    with pytest.raises(ConnectionResetError):
        await leadership_on(connection).held()
    assert [call[0] for call in connection.method_calls] == ["execute", "invalidate", "close"]


@pytest.mark.parametrize("taken", [True, False])
async def test_a_connection_is_kept_with_the_lock_alone(taken: bool) -> None:
    connection = AsyncMock()
    connection.execute.return_value = MagicMock(scalar_one=lambda: taken)
    assert await leadership_on(connection).held() is taken
    assert connection.close.await_count == (not taken)
