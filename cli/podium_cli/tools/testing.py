import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_cli.command import Session, command
from podium_cli.episodes.run import Budget, Policy
from podium_cli.formats import format_money, format_seconds
from podium_cli.inputs import parse_money, parse_seconds
from podium_cli.listing import Row, listing
from podium_cli.tools.tools import Name, app
from podium_cli.tools.trying import called
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.client.rejections import Rejected
from podium_kit.failures import FailureKind
from podium_kit.limits.concurrency import in_parallel
from podium_kit.metering import COMPLETION_TOKENS, PROMPT_TOKENS
from podium_kit.tool_kinds import kind_of
from podium_kit.wire import (
    duration_from_proto,
    failure_from_proto,
    json_values,
    money_to_proto,
    optional_money_from_proto,
    quantities_from_proto,
)

AT_ONCE = 4
# The least that OpenAI's Responses accept.
OUTPUT_TOKENS = 16
QUESTION = "Reply with the word ok."
COLUMNS = ("alias", "model", "status", "in#", "out#", "price", "latency#")
FIXES = {
    FailureKind.PERMISSION_DENIED: "store the provider's key under the name of the model's secret"
    " (`podium secrets set`), and check that it may use this model",
    FailureKind.NOT_FOUND: "correct the model's `model` or `base_url`",
    FailureKind.RATE_LIMITED: "wait, raise the quota at the provider, or give the model several"
    " `endpoints`",
    FailureKind.UNAVAILABLE: "check the model's `base_url`, and that the adapters may reach it",
    FailureKind.TIMEOUT: "raise the tool's `limits.timeout`",
    FailureKind.MALFORMED_OUTPUT: "correct the model's `api` or `base_url`",
    FailureKind.TOOL_ERROR: "correct the model's `options`, `model` or `api`",
    FailureKind.BUDGET_EXHAUSTED: "`podium budgets list` shows the budgets",
}
OTHER_FIX = "`podium status` shows what is unwell"


@dataclass(frozen=True)
class ModelTest:
    """A call of one model, or the reason why the platform did not start it; neither where it has
    not ended after `waited_s`."""

    model: tool_pb2.LlmModel
    call: pb.DirectCall | None = None
    rejection: Rejected | None = None
    waited_s: float = 0.0

    @property
    def problem(self) -> tuple[str, str, str] | None:
        """The status, the cause and the fix of a failed call; None for an answer."""
        if self.rejection is not None:
            return "rejected", self.rejection.cause, self.rejection.fix
        if self.call is None:
            cause = f"it gave no answer in {format_seconds(self.waited_s)}; the call continues"
            return "no answer", cause, "name a higher --timeout: a model without a pod starts first"
        if not self.call.HasField("failure"):
            return None
        failure = failure_from_proto(self.call.failure)
        return failure.kind.value, failure.message, FIXES.get(failure.kind, OTHER_FIX)

    @property
    def row(self) -> Row:
        alias, model = self.model.alias, self.model.model
        status = self.problem[0] if self.problem else "ok"
        if self.call is None:
            return alias, model, status, "", "", "", ""
        used = quantities_from_proto(self.call.usage.quantities)
        tokens_in, tokens_out = (
            str(int(sum(each.amount for each in used if each.dimension in kinds)))
            for kinds in (PROMPT_TOKENS, COMPLETION_TOKENS)
        )
        price = format_money(optional_money_from_proto(self.call.cost))
        made = self.call.HasField("latency")
        latency = format_seconds(duration_from_proto(self.call.latency)) if made else ""
        return alias, model, status, tokens_in, tokens_out, price, latency

    @property
    def as_json(self) -> dict[str, Any]:
        call = json_values(self.call) if self.call else None
        names = ("status", "cause", "fix")
        problem = dict(zip(names, self.problem or ("ok", "", ""), strict=True))
        return {"alias": self.model.alias, "model": self.model.model, **problem, "call": call}


@command(app, "test")
async def test_models(
    session: Session,
    name: Name,
    *,
    policy: Policy = "",
    budget: Budget = "",
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Most output tokens of each call.")
    ] = OUTPUT_TOKENS,
    longest: Annotated[
        str,
        typer.Option(
            "--timeout", help="Longest wait, like 90s. [default: the tool's limits.timeout]"
        ),
    ] = "",
) -> None:
    """Call each model of a tool of kind llm once, and print its tokens, price and latency.

    The calls are like any other: the policy decides about them, the ledger charges for them, and
    --budget limits each. Exit status 1 if one fails.
    """
    timeout_s = parse_seconds(longest) if longest else None
    order = pb.DirectCallSpec(tool_name=name, policy=policy)
    if budget:
        order.budget.CopyFrom(money_to_proto(parse_money(budget)))
    async with session.gateway() as gateway:
        path = f"/v1/tools/{segment(name)}"
        tool = (await gateway.get(path, tool_registry_service_pb2.GetToolResponse)).tool
        if not kind_of(tool.spec.kind).has_models:
            raise UsageError(f"{name} has no models", f"call it with `podium tools try {name}`")
        llm = tool.spec.connection.llm
        if llm.role == tool_pb2.LLM_ROLE_EMBEDDER:
            order.arguments_json = json.dumps({"input": [QUESTION]})
        else:
            order.messages.add(role="user", content=QUESTION)
            order.sampling.max_tokens = max_tokens
        jobs = [partial(_tested, session, gateway, order, model, timeout_s) for model in llm.models]
        tests = await in_parallel(jobs, AT_ONCE)
    table = listing(COLUMNS, [each.row for each in tests], ("model", "latency#"))
    shown = Group(table, *(line for each in tests for line in _explained(each)))
    session.output.result({"models": [each.as_json for each in tests]}, shown)
    if any(each.problem for each in tests):
        raise typer.Exit(1)


async def _tested(
    session: Session,
    gateway: Gateway,
    order: pb.DirectCallSpec,
    model: tool_pb2.LlmModel,
    timeout_s: float | None,
) -> ModelTest:
    spec = pb.DirectCallSpec()
    spec.CopyFrom(order)
    spec.model_alias = model.alias

    def waits() -> None:
        session.output.note(
            f"{model.alias} has not answered yet; a model without a pod starts first"
        )

    try:
        async with asyncio.timeout(timeout_s):
            return ModelTest(model, call=await called(gateway, spec, waits))
    except TimeoutError:
        return ModelTest(model, waited_s=timeout_s or 0.0)
    except Rejected as error:
        return ModelTest(model, rejection=error)


def _explained(test: ModelTest) -> Iterator[Text]:
    if test.problem:
        _, cause, fix = test.problem
        yield Text.assemble((f"{test.model.alias}:", "bold red"), f" {cause}")
        yield Text.assemble((" fix:", "bold"), f" {fix}")
