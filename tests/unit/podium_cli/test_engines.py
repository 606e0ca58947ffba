"""The engine of `podium up` serves what `podium up --policy-store` is given."""

import json

from podium_kit.bundled_files import bundled_folder
from podium_operations.local.engines import ADAPTER_RANK_MAX


def test_an_adapter_of_the_bundled_policys_rank_can_be_served() -> None:
    [config] = (bundled_folder() / "policy").glob("*/adapter_config.json")
    assert json.loads(config.read_text(encoding="utf-8"))["r"] <= ADAPTER_RANK_MAX
