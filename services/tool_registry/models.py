"""Tools, policies and prices as the registry reasons about them.

Connections stay serialized: only the adapters open them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property

from podium_kit.attachments import MediaKind
from podium_kit.metering import Dimension, LatencyHistogram, Quantity
from podium_kit.money import Money
from podium_kit.tool_kinds import ToolKind

PLATFORM = ""
PODIUM_PROVIDER = "podium"
# Offered where a toolset leaves tools out.
FIND_TOOLS = "find_tools"


class UnknownPriceRule(StrEnum):
    REJECT = "reject"
    ADMIT_AT_CEILING = "admit_at_ceiling"
    ADMIT = "admit"


@dataclass(frozen=True)
class ModelChoice:
    """The unit of a policy's decisions: one model of an llm tool, or a whole other tool.

    Without an alias it is the tool; its tags and its provider are the tool's as well.
    """

    alias: str
    model: str
    sku: str
    description: str
    provider: str
    tags: frozenset[str]
    # What it reads besides text.
    takes: frozenset[MediaKind] = frozenset()


@dataclass(frozen=True)
class ToolSpec:
    """The owner's spec of a tool. `wire` is the whole of it, connection included.

    A general tool is right for tasks of any kind: one that runs code, a generalist model. What one
    that gives the answer returns ends the episode. One that embeds turns texts into vectors, which
    is nothing for an episode. One that delegates takes a step with the episode's tools.
    """

    name: str
    kind: ToolKind
    connection_kind: str
    description: str
    parameters_schema: str
    result_schema: str
    models: tuple[ModelChoice, ...]
    max_output_tokens: int
    sku: str
    timeout_s: float
    tags: frozenset[str]
    provider: str
    example_tasks: tuple[str, ...]
    general: bool
    gives_answer: bool
    embeds: bool
    delegates: bool
    # The tool that runs what its models write, and the argument that is given it; "" for none.
    executor: str
    executor_argument: str
    # The policy that episodes run under which a tool of kind podium starts; "" for the caller's.
    runs_policy: str
    wire: bytes
    # What of the operator's it calls, and the shared tools that offer it (operator_resources).
    resource: tuple[str, ...] = ()
    aliases: frozenset[str] = frozenset()

    @cached_property
    def ruled_names(self) -> frozenset[str]:
        """Names, in lower case, by which a policy's rules mean the tool."""
        return frozenset(name.lower() for name in (self.name, *self.aliases))

    @cached_property
    def choices(self) -> tuple[ModelChoice, ...]:
        """One per model of an llm tool, one for the whole of another tool."""
        provider = self.provider or PODIUM_PROVIDER
        if not self.models:
            return (ModelChoice("", "", self.sku, "", provider, self.tags),)
        return tuple(
            replace(model, provider=model.provider or provider, tags=model.tags | self.tags)
            for model in self.models
        )

    @property
    def skus(self) -> tuple[str, ...]:
        """Every SKU a call may be priced by; unknown ones are left out."""
        return tuple(sku for sku in (self.sku, *(m.sku for m in self.models)) if sku)


@dataclass(frozen=True)
class ToolVersion:
    """One immutable version. The owner is a tenant, or empty for the platform."""

    owner: str
    version: int
    spec: ToolSpec
    digest: str
    create_time: datetime
    created_by: str
    deprecate_time: datetime | None = None
    delete_time: datetime | None = None

    @property
    def current(self) -> bool:
        return self.deprecate_time is None and self.delete_time is None


@dataclass(frozen=True)
class Selector:
    """Matches a tool when any of its lists names it."""

    names: frozenset[str] = frozenset()
    kinds: frozenset[ToolKind] = frozenset()
    tags: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()

    @property
    def empty(self) -> bool:
        return not (self.names or self.kinds or self.tags or self.providers or self.models)


@dataclass(frozen=True)
class Preferences:
    """The preference vector P of the paper (section 3.2); every weight in [0, 1]."""

    outcome: float = 1.0
    compute: float = 0.0
    latency: float = 0.0
    tools: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PolicyGuardrail:
    """Reads calls of the selected tools, all where nothing is selected, and answers."""

    tools: Selector
    stages: frozenset[str]
    wire: bytes


@dataclass(frozen=True)
class PolicySpec:
    """The author's spec of a policy, with a preset's weights filled in."""

    name: str
    preferences: Preferences
    allow: Selector
    deny: Selector
    required_tags: frozenset[str]
    price_ceiling: Money | None
    latency_ceiling_s: float | None
    unknown_price: UnknownPriceRule
    approval: Selector
    instruction: str
    training_consent: bool
    budget_ids: tuple[str, ...]
    approval_timeout_s: float
    self_approval: bool
    no_presets: bool
    parallel_calls: int  # The most in one turn; 0 sets no limit.
    explore: float
    """Share of the episodes without a temperature that is sampled at temperature 1."""
    guardrails: tuple[PolicyGuardrail, ...]
    cache: bytes | None
    wire: bytes
    # What binds as well, whatever this policy says.
    floors: "tuple[Floor, ...]" = ()

    @property
    def has_price_ceiling(self) -> bool:
        floors = (floor.policy.spec for floor in self.floors)
        return any(each.price_ceiling is not None for each in (self, *floors))


@dataclass(frozen=True)
class PolicyVersion:
    version: int
    spec: PolicySpec
    digest: str
    create_time: datetime
    created_by: str
    active: bool = False
    model: str = ""
    """Orchestrator model of episodes that name none; "" for the platform's default."""


@dataclass(frozen=True)
class Floor:
    """A policy that binds an episode, and what makes it, in words."""

    policy: PolicyVersion
    origin: str


@dataclass(frozen=True)
class Binding:
    principal: str
    policy: str
    create_time: datetime
    created_by: str


@dataclass(frozen=True)
class Activation:
    """The time from which a policy is the tenant's default, until the next activation."""

    sequence: int
    name: str
    version: int
    effective_time: datetime
    create_time: datetime
    created_by: str


class LearningStage(StrEnum):
    COLLECTED = "collected"
    LEARNT = "learnt"
    GATED = "gated"
    CANARY = "canary"
    PROMOTED = "promoted"
    KEPT = "kept"
    ROLLED_BACK = "rolled_back"


@dataclass(frozen=True)
class LearningStep:
    """A stage that a cycle of learning has reached; see the contract."""

    policy: str
    cycle: str
    stage: LearningStage
    model: str
    summary: str
    facts: Mapping[str, str]
    created_by: str
    create_time: datetime | None = None
    """None before it is recorded."""
    sequence: int = 0


@dataclass(frozen=True)
class PriceComponent:
    """The price of `per` units of one dimension."""

    dimension: Dimension
    unit_price: Decimal
    per: Decimal

    @property
    def of_one_unit(self) -> Decimal:
        return self.unit_price / self.per


@dataclass(frozen=True)
class Price:
    currency_code: str
    components: tuple[PriceComponent, ...]

    @cached_property
    def unit_prices(self) -> dict[Dimension, Decimal]:
        """Dimensions that are free are left out."""
        return {part.dimension: part.of_one_unit for part in self.components if part.unit_price}

    @cached_property
    def worst_cases(self) -> dict[tuple[float, int, int], Money | None]:
        """The most a call can cost, by timeout, input and output tokens; filled by `prices`."""
        return {}


@dataclass(frozen=True)
class Unavailability:
    """The reason why a tenant's calls of a tool are expected to fail, and until when; UTC."""

    reason: str
    until: datetime


@dataclass(frozen=True)
class Facts:
    """Measured behaviour of a tool, or of one model of it; usage is that of all calls."""

    tool_name: str
    model_alias: str
    sample_count: int
    latencies: LatencyHistogram
    success_rate: float
    usage: tuple[Quantity, ...] = ()
    unavailable: Unavailability | None = None

    @cached_property
    def latency_p50_s(self) -> float:
        return self.latencies.quantile_s(0.5)

    @cached_property
    def latency_p90_s(self) -> float:
        return self.latencies.quantile_s(0.9)

    @cached_property
    def latency_p95_s(self) -> float:
        return self.latencies.quantile_s(0.95)


@dataclass(frozen=True)
class MeasuredTool:
    """Measured behaviour, and what a call costs a tenant on average; None is unknown."""

    facts: Facts
    mean_cost: Money | None


@dataclass(frozen=True)
class FactsSource:
    reporter: str
    tenant: str


@dataclass(frozen=True)
class FactsReport:
    facts: Facts
    tenant: str
    time: datetime


@dataclass(frozen=True)
class ToolAccess:
    name: str
    allowed: bool
    reason: str
    needs_approval: bool = False


@dataclass(frozen=True)
class CallEstimate:
    """The expected cost and latency of a call; None is unknown. `weight` is the tenant's."""

    model_alias: str
    cost: Money | None
    latency_s: float | None
    weight: float


@dataclass(frozen=True, eq=False)
class ResolvedTool:
    """One tool as an episode may use it. Compared by identity: it never changes."""

    version: ToolVersion
    description: str
    terms: str
    estimates: tuple[CallEstimate, ...]
    parameters_schema: str
    models: tuple[ModelChoice, ...]
    weight: float
    needs_approval: bool
    price_per_call: Money | None
    executor: "ResolvedTool | None" = None
    """The tool that runs the texts of a composite tool; None for any other."""


@dataclass(frozen=True)
class ClientTool:
    name: str
    description: str
    parameters_schema: str


@dataclass(frozen=True, eq=False)
class Toolset:
    tools: tuple[ResolvedTool, ...]
    policy: PolicyVersion
    decisions: tuple[ToolAccess, ...]
    finder: bool = False
    """True where tools are left out that find_tools would find."""
    client_tools: tuple[ClientTool, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, ResolvedTool]:
        return {tool.version.spec.name: tool for tool in self.tools}

    def decision(self, name: str) -> ToolAccess | None:
        return self._decisions.get(name)

    @cached_property
    def _decisions(self) -> dict[str, ToolAccess]:
        return {decision.name: decision for decision in self.decisions}
