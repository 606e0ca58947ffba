from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from podium_kit.policy_versions.names import VersionName
from podium_kit.policy_versions.writing import replace_text

FOLDER = "reports"


class Report(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    ready: bool
    replicas_ready: int
    replicas: int
    faults: tuple[str, ...] = ()
    """Why it is not ready, or not on every replica."""


def write_report(root: Path, report: Report) -> None:
    """Replaces the report; an equal one is not written."""
    if read_report(root, report.name) == report:
        return
    replace_text(root / FOLDER / f"{report.name}.json", report.model_dump_json())


def read_report(root: Path, name: str) -> Report | None:
    path = root / FOLDER / f"{VersionName.parse(name)}.json"
    try:
        return Report.model_validate_json(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValidationError):
        return None
