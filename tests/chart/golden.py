"""Every object of every profile, written down: a review sees what a change does to a release.

`python -m chart.golden` (with tests/ on the path) writes tests/chart/golden, one object per line.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chart.rendering import PROFILES, Json, label, rendered

FOLDER = Path(__file__).parent / "golden"


def file_of(profile: str) -> Path:
    return FOLDER / f"{profile}.jsonl"


def objects_of(profile: str) -> dict[str, Json]:
    return {label(obj): obj for obj in rendered(profile)}


def written_of(profile: str) -> dict[str, Json]:
    lines = file_of(profile).read_text().splitlines()
    return {label(obj): obj for obj in map(json.loads, lines)}


def differences(before: Any, now: Any, path: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from differences(before.get(key), now.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, pair in enumerate(zip(before, now, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif before != now:
        yield f"{path}: {json.dumps(before)} -> {json.dumps(now)}"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for profile in PROFILES:
        found = objects_of(profile)
        lines = [json.dumps(found[name], sort_keys=True) + "\n" for name in sorted(found)]
        file_of(profile).write_text("".join(lines))


if __name__ == "__main__":
    main()
