"""The server under test, not yet running."""

from pathlib import Path

import pytest

from integration.podium_kit.rpc.policies_under_test import PoliciesUnderTest


@pytest.fixture
def server(tmp_path: Path) -> PoliciesUnderTest:
    return PoliciesUnderTest(tmp_path)
