"""The folder of shipped files: beside libs/ in a checkout, under share/ once installed."""

import sysconfig
from pathlib import Path

from podium_kit.rpc.errors import FailedPrecondition

CHECKOUT = Path(__file__).parents[2] / "bundled"


class BundledFilesMissing(FailedPrecondition):
    def __init__(self, folders: list[Path]) -> None:
        places = " or ".join(str(folder) for folder in folders)
        super().__init__(
            f"the bundled files are not in {places}: install podium-platform again",
        )


def bundled_folder() -> Path:
    installed = Path(sysconfig.get_path("data")) / "share" / "podium" / "bundled"
    for folder in (CHECKOUT, installed):
        if (folder / "prices.yaml").is_file():
            return folder
    raise BundledFilesMissing([CHECKOUT, installed])
