import logging

import pytest

from podium_kit.client.rejections import Rejected
from podium_operations.bootstrap.making import retry_while_away


def rejected(*, temporary: bool) -> Rejected:
    return Rejected("tool-adapters does not answer", "wait", "", {}, temporary=temporary)


async def test_a_service_that_comes_later_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    failures = [rejected(temporary=True)]

    async def fill() -> list[str]:
        if failures:
            raise failures.pop()
        return ["the library"]

    with caplog.at_level(logging.INFO):
        assert await retry_while_away(fill) == ["the library"]
    assert "tool-adapters does not answer" in caplog.text


async def test_what_is_rejected_for_good_is_not_tried_again() -> None:
    tries = []

    async def fill() -> list[str]:
        tries.append(1)
        raise rejected(temporary=False)

    with pytest.raises(Rejected):
        await retry_while_away(fill)
    assert len(tries) == 1
