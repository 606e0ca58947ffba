"""Asks judges about answers that people labelled, and counts how far they agree with the labels."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from podium.common.v1 import money_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.ledger.v1 import budget_service_pb2
from podium.registry.v1 import tool_pb2
from podium_evaluation.runs.judges import PROMPT_DIGEST, Asked, Judge, Question, ask, probe
from podium_evaluation.runs.names import budget_name
from podium_evaluation.runs.preparing import agent_budget, check_priced
from podium_evaluation.statistics.agreement import fleiss_kappa
from podium_kit.client.errors import UnreadableFile, UsageError, UserError
from podium_kit.client.gateway import Gateway
from podium_kit.limits.concurrency import in_parallel
from podium_kit.money import Money
from podium_kit.verifiers.llm_judge import JUDGES_MAX, LlmJudge
from podium_kit.wire import money_to_proto

EXAMPLES_MAX, FAULTS_SHOWN_MAX = 5_000, 5
Text = Annotated[str, Field(min_length=1, max_length=262_144)]


class LabelledAnswer(BaseModel):
    """A line of a calibration set: a person's verdict on an answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Text
    answer: Annotated[str, Field(max_length=262_144)]
    label: Literal["right", "wrong"]
    reference: Text | None = None

    @property
    def is_right(self) -> bool:
        return self.label == "right"


@dataclass(frozen=True)
class LabelledSet:
    name: str
    digest: str
    answers: Sequence[LabelledAnswer]


def read_labels(path: Path) -> LabelledSet:
    """Raises UsageError, which names the lines at fault."""
    try:
        content = path.read_bytes()
        lines = content.decode().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(path, error, "name a file of JSON lines") from error
    answers, faults = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            answers.append(LabelledAnswer.model_validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "line"
            faults.append(f"line {number}: {place}: {first['msg']}")
    if faults:
        raise UsageError(
            f"{path}: {'; '.join(faults[:FAULTS_SHOWN_MAX])}",
            'write lines like {"task": "…", "answer": "…", "reference": "…", "label": "right"}',
        )
    if not 0 < len(answers) <= EXAMPLES_MAX:
        raise UsageError(
            f"{path} has {len(answers)} labelled answers", f"give 1 to {EXAMPLES_MAX} of them"
        )
    return LabelledSet(path.stem[:128], hashlib.sha256(content).hexdigest(), answers)


@dataclass(frozen=True)
class Calibrated:
    """The replies of each judge about each answer, in the answers' order."""

    labelled: LabelledSet
    replies: Mapping[Judge, Sequence[Asked]]

    def message(
        self, id: str, models: Mapping[Judge, str], versions: Mapping[str, int]
    ) -> pb.JudgeCalibration:
        answers = self.labelled.answers
        right = sum(each.is_right for each in answers)
        whole = list(zip(*map(_verdicts, self.replies.values()), strict=True))
        judged = [[v for v in row if v is not None] for row in whole if None not in row]
        together = len(self.replies) > 2
        return pb.JudgeCalibration(
            id=id,
            name=self.labelled.name,
            digest=self.labelled.digest,
            labelled_right=right,
            labelled_wrong=len(answers) - right,
            with_reference=sum(each.reference is not None for each in answers),
            verifier_version=LlmJudge.version,
            prompt_digest=PROMPT_DIGEST,
            judges=[self._judge(j, models[j], versions[j.tool]) for j in self.replies],
            pairs=[self._pair(*pair) for pair in combinations(self.replies, 2)],
            all_agree_kappa=fleiss_kappa(judged) if together else None,
            all_judged=len(judged) if together else 0,
        )

    def _judge(self, judge: Judge, model: str, version: int) -> pb.CalibratedJudge:
        replies = self.replies[judge]
        labels = (each.is_right for each in self.labelled.answers)
        cells = Counter(zip(labels, _verdicts(replies), strict=True))
        message = pb.CalibratedJudge(
            judge=str(judge),
            model=model,
            tool_version=version,
            right_called_right=cells[True, True],
            right_called_wrong=cells[True, False],
            wrong_called_right=cells[False, True],
            wrong_called_wrong=cells[False, False],
            unjudged=cells[True, None] + cells[False, None],
        )
        costs = [each.cost for each in replies if each.cost is not None]
        if costs:
            message.cost.CopyFrom(money_to_proto(sum(costs[1:], costs[0])))
        return message

    def _pair(self, first: Judge, second: Judge) -> pb.CalibratedPair:
        both = zip(_verdicts(self.replies[first]), _verdicts(self.replies[second]), strict=True)
        cells = Counter(both)
        return pb.CalibratedPair(
            first=str(first),
            second=str(second),
            both_right=cells[True, True],
            first_alone_right=cells[True, False],
            second_alone_right=cells[False, True],
            both_wrong=cells[False, False],
        )


async def calibrate(
    gateway: Gateway,
    labelled: LabelledSet,
    judges: Sequence[Judge],
    tools: Mapping[str, tool_pb2.Tool],
    *,
    id: str,
    limit: Money,
    at_once: int,
    progress: Callable[[], None],
) -> pb.JudgeCalibration:
    """Asks every judge about every answer within a budget of its own, and stores the counts.

    Raises UsageError, UserError, Rejected, Unreachable.
    """
    if not 0 < len(judges) <= JUDGES_MAX or len(set(judges)) < len(judges):
        raise UsageError(
            f"{len(judges)} judges", f"name 1 to {JUDGES_MAX} different ones with --judge"
        )
    specs = {name: tool.spec for name, tool in tools.items()}
    models = {judge: judge.models(specs)[0] for judge in judges}
    await check_priced(gateway, "the judge", [specs[judge.tool] for judge in judges])
    money = money_pb2.Money(amount=limit.amount_string(), currency_code=limit.currency_code)
    wanted = agent_budget(budget_name(id), money)
    await gateway.post("/v1/budgets", wanted, budget_service_pb2.CreateBudgetResponse)
    for judge in judges:
        await probe(gateway, id, judge)
    replies: dict[Judge, list[Asked]] = {}
    for judge in judges:
        replies[judge] = [Asked(None, "not asked")] * len(labelled.answers)

    async def one(judge: Judge, place: int) -> None:
        each = labelled.answers[place]
        asked = Question(f"labelled-{place}", each.task, each.answer)
        found = await ask(gateway, id, judge, judge.verifier(each.reference), asked)
        if found.out_of_budget:
            raise UserError(
                f"the budget of {limit.amount_string()} {limit.currency_code} is spent",
                "give a larger --budget, or fewer answers or judges",
            )
        replies[judge][place] = found
        progress()

    places = range(len(labelled.answers))
    await in_parallel([partial(one, judge, place) for judge in judges for place in places], at_once)
    versions = {judge.tool: tools[judge.tool].version for judge in judges}
    message = Calibrated(labelled, replies).message(id, models, versions)
    request = pb.RecordJudgeCalibrationRequest(calibration=message)
    await gateway.post("/v1/judge-calibrations", request, pb.RecordJudgeCalibrationResponse)
    return message


def _verdicts(replies: Sequence[Asked]) -> list[bool | None]:
    return [None if each.score is None else each.score == 1 for each in replies]
