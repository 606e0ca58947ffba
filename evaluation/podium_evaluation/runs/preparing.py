"""Checks a run before anything is spent, and builds the request that stores it."""

from collections.abc import Sequence
from decimal import Decimal

from podium.common.v1 import money_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.ledger.v1 import budget_service_pb2, price_book_service_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import policy_service_pb2, tool_pb2, tool_registry_service_pb2
from podium_evaluation.runs.judges import Judge, check_family, models_among, probe
from podium_evaluation.runs.names import budget_name
from podium_evaluation.suites.run_file import Arm, RunFile
from podium_evaluation.suites.suite import Suite, comparability_key, tool_of
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.tool_kinds import kind_of
from podium_kit.wire import duration_to_proto
from podium_training.rollouts.rolling import skus_of
from podium_training.tasks.task import FIND_TOOLS

CURRENCY = "USD"
PROMPT_MODES = {
    "": orchestrator_pb.PROMPT_MODE_UNSPECIFIED,
    "stateless": orchestrator_pb.PROMPT_MODE_STATELESS,
    "chat": orchestrator_pb.PROMPT_MODE_CHAT,
    "template": orchestrator_pb.PROMPT_MODE_TEMPLATE,
}


def trial_count(run: RunFile, suite: Suite) -> int:
    return len(suite.tasks) * len(run.arms) * run.repeats


def check_forecast(run: RunFile, suite: Suite) -> None:
    """Raises UsageError where the trials' own budgets together may pass the run's."""
    if run.trial_usd is None:
        return
    worst = run.trial_usd * trial_count(run, suite)
    if worst > run.budget_usd:
        raise UsageError(
            f"{trial_count(run, suite)} trials of up to {run.trial_usd:f} {CURRENCY} may cost"
            f" {worst:f}, and budget_usd is {run.budget_usd:f}",
            f"set budget_usd to {worst:f}, or take fewer items, arms or repeats",
        )


async def prepare(
    gateway: Gateway, evaluation_id: str, run: RunFile, suite: Suite
) -> pb.CreateEvaluationRequest:
    """The run as it is to be stored. Raises UsageError, Rejected, Unreachable."""
    check_forecast(run, suite)
    if run.allow_own_family:
        suite = suite.allowing_own_family()
    listed = await gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
    tools = {tool.spec.name: tool.spec for tool in listed.tools}
    await _check_models(gateway, suite, tools)
    for judge in judges_of(suite):
        own = judge.models(tools)
        if str(judge) in suite.judges_of_other_families:
            named = {arm.model for arm in run.arms if arm.model}
            offered = [name for arm in run.arms for name in arm.tools]
            check_family(judge, own, named | models_among(offered, tools))
    for arm in run.arms:
        await _check_arm(gateway, arm, tools)
    versions = {tool.spec.name: str(tool.version) for tool in listed.tools}
    evaluation = pb.Evaluation(
        id=evaluation_id,
        suite=suite.name,
        comparability_key=comparability_key(suite, run, versions),
        arms=[_arm(arm, run) for arm in run.arms],
        repeats=run.repeats,
        budget_id=budget_name(evaluation_id),
    )
    return pb.CreateEvaluationRequest(evaluation=evaluation, items=suite.items())


async def create(
    gateway: Gateway,
    request: pb.CreateEvaluationRequest,
    limit: Decimal,
    judges: Sequence[Judge] = (),
) -> None:
    """Creates the run's budget, tries its judges within it, then creates the run.

    Raises UserError where a judge does not judge a plain case.
    """
    money = money_pb2.Money(amount=f"{limit:f}", currency_code=CURRENCY)
    wanted = agent_budget(request.evaluation.budget_id, money)
    await gateway.post("/v1/budgets", wanted, budget_service_pb2.CreateBudgetResponse)
    for judge in judges:
        await probe(gateway, request.evaluation.id, judge)
    await gateway.post("/v1/evaluations", request, pb.CreateEvaluationResponse)


async def _check_models(
    gateway: Gateway, suite: Suite, tools: dict[str, tool_pb2.ToolSpec]
) -> None:
    for use, names in (("judge", suite.judges), ("user", suite.users)):
        named = sorted(set(map(tool_of, names)))
        for name in named:
            if name not in tools:
                raise UsageError(f"there is no tool {name} as {use}", "see `podium tools list`")
            if not kind_of(tools[name].kind).has_models:
                raise UsageError(f"the {use} {name} is no tool of kind llm", "name one that is")
        await check_priced(gateway, f"the {use}", [tools[name] for name in named])


def agent_budget(name: str, limit: money_pb2.Money) -> budget_service_pb2.CreateBudgetRequest:
    """The budget of an evaluation: of all calls whose episodes name it as their agent."""
    budget = budget_service_pb2.Budget(
        id=name,
        scope=budget_service_pb2.BUDGET_SCOPE_AGENT,
        scope_id=name,
        window=budget_service_pb2.BUDGET_WINDOW_TOTAL,
        hard_limit=limit,
    )
    return budget_service_pb2.CreateBudgetRequest(budget=budget)


def judges_of(suite: Suite) -> list[Judge]:
    """The judges that the suite's checks ask."""
    return [Judge.parse(name) for name in suite.judges]


async def _check_arm(gateway: Gateway, arm: Arm, tools: dict[str, tool_pb2.ToolSpec]) -> None:
    if arm.policy:
        path = f"/v1/policies/{segment(arm.policy)}"
        await gateway.get(path, policy_service_pb2.GetPolicyResponse)
    named = [name for name in arm.tools if name != FIND_TOOLS]
    if unknown := [name for name in named if name not in tools]:
        raise UsageError(
            f"arm {arm.name}: there is no tool {unknown[0]}", "see `podium tools list`"
        )
    await check_priced(gateway, f"arm {arm.name}:", [tools[name] for name in named])


async def check_priced(gateway: Gateway, who: str, tools: Sequence[tool_pb2.ToolSpec]) -> None:
    """Raises UsageError for a tool without a price; one of an orchestrator costs what its episode
    does.
    """
    skus = {tool.name: skus_of(tool) for tool in tools if not kind_of(tool.kind).starts_episode}
    wanted = sorted({sku for each in skus.values() for sku in each})
    reply = price_book_service_pb2.GetEffectivePricesResponse
    found = await gateway.get("/v1/prices/effective", reply, skus=wanted) if wanted else reply()
    unpriced = sorted(
        name for name, each in skus.items() if not each or not set(each) <= set(found.prices)
    )
    if unpriced:
        raise UsageError(
            f"{who} {', '.join(unpriced)} has no price, so its cost would be unknown",
            "import one with `podium prices import`",
        )


def _arm(arm: Arm, run: RunFile) -> pb.EvaluationArm:
    stored = pb.EvaluationArm(
        name=arm.name,
        model=arm.model,
        policy=arm.policy,
        tool_names=arm.tools,
        turn_limit=arm.turn_limit or run.turn_limit,
        time_limit=duration_to_proto(run.time_limit),
        prompt_mode=PROMPT_MODES[arm.prompt_mode],
        sampling=orchestrator_pb.Sampling(
            temperature=arm.temperature, top_p=1.0, max_tokens=arm.max_tokens
        ),
    )
    if run.trial_usd is not None:
        money = money_pb2.Money(amount=f"{run.trial_usd:f}", currency_code=CURRENCY)
        stored.budget.CopyFrom(money)
    return stored
