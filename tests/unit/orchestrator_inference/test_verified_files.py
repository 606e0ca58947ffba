from pathlib import Path

import pytest

from orchestrator_inference.versions.files import VerifiedFiles
from podium_kit.policy_versions import Manifest, Unreadable, VersionStore
from unit.podium_kit.policy_versions.test_store import NAME, fill, make_manifest


class AwayOnce(VersionStore):
    failed = False

    def verified(self, name: str) -> Manifest:
        if not self.failed:
            self.failed = True
            raise Unreadable(name, "the volume is away")
        return super().verified(name)


async def test_what_could_not_be_read_is_read_again(tmp_path: Path) -> None:
    store = AwayOnce(tmp_path)
    written = store.write(make_manifest(), fill)
    files = VerifiedFiles(store)
    with pytest.raises(Unreadable):
        await files.verified(NAME)
    assert await files.verified(NAME) == written
