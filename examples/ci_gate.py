"""Fails a build when a policy or a model has become worse or more expensive than the last good run.

    pip install ./sdks/python   # from the repository
    python ci_gate.py baseline.json --write   # once, and whenever a change is wanted
    python ci_gate.py baseline.json           # in every build; exit status 1 is a regression

Each task is an episode with a check, so what "solved" means is decided by the platform's verifiers.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path

from podium_client import EpisodeEvent, EpisodeUnanswered, Podium
from podium_client.models import Check

TASKS = {
    "What is 6 x 7?": ("numeric", {"expected": 42}),
    "What is the capital of Burkina Faso?": ("contains", {"expected": ["Ouagadougou"]}),
    "What is 2 to the power of 10?": ("numeric", {"expected": 1024}),
}
# Prices and tokens of a run vary a little.
DEARER_MAX = Decimal("1.2")


@dataclass(frozen=True)
class Run:
    """The figures that are compared."""

    solved: list[str]
    cost: str


def attempt(podium: Podium, task: str) -> tuple[bool, Decimal]:
    """Returns whether the task was solved, and what it cost in US dollars."""
    verifier, parameters = TASKS[task]
    scores: list[float] = []

    def judged(event: EpisodeEvent) -> None:
        if event.judged and event.judged.score is not None:
            scores.append(event.judged.score)

    check = Check(verifier=verifier, parameters_json=json.dumps(parameters))
    tools = ["calculator", "country_facts"]
    try:
        episode = podium.episodes.run(
            task, tools=tools, check=check, on_event=judged, labels={"run": "ci"}
        )
    except EpisodeUnanswered as ended:
        episode = ended.episode
    return scores == [1.0], episode.cost.amount if episode.cost else Decimal(0)


def run() -> Run:
    with Podium() as podium, ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda task: attempt(podium, task), TASKS))
    solved = [task for task, (good, _) in zip(TASKS, results, strict=True) if good]
    return Run(solved, str(sum(cost for _, cost in results)))


def regressions(found: Run, baseline: Run) -> list[str]:
    lost = [f"not solved any more: {task}" for task in baseline.solved if task not in found.solved]
    dearest = Decimal(baseline.cost) * DEARER_MAX
    dearer = Decimal(found.cost) > dearest
    return lost + ([f"costs {found.cost} USD, at most {dearest} was allowed"] if dearer else [])


if not sys.argv[1:]:
    sys.exit("name the baseline: python ci_gate.py baseline.json [--write]")
path = Path(sys.argv[1])
if "--write" not in sys.argv and not path.exists():
    sys.exit(f"{path} is not there; make it with: python ci_gate.py {path} --write")
found = run()
print(f"{len(found.solved)} of {len(TASKS)} solved for {found.cost} USD")
if "--write" in sys.argv:
    path.write_text(json.dumps(asdict(found), indent=1))
elif problems := regressions(found, Run(**json.loads(path.read_text()))):
    sys.exit("\n".join(problems))
