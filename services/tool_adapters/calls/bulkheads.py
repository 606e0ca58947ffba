import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from podium_kit.limits.concurrency import FairSemaphore
from tool_adapters.models import ToolDefinition

FAILURES_TO_OPEN = 5
COOL_DOWN_S = 15.0
GATES_KEPT = 10_000
# A limit that the operator lowered is known to tenants' tools after a minute; then it replaces the
# former one as soon as no one states that any more.
STATED_S = 120.0


class Breaker:
    """Opens after so many calls in a row that found the tool unwell.

    After the cool-down one call is let through as a probe: well closes the breaker,
    unwell opens it for another cool-down.
    """

    def __init__(
        self,
        failures_to_open: int = FAILURES_TO_OPEN,
        cool_down_s: float = COOL_DOWN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures_to_open = failures_to_open
        self._cool_down_s = cool_down_s
        self._clock = clock
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False

    def lets_pass(self) -> bool:
        """Returns whether a call may be made, which then must `record` or `abandon`."""
        if self._opened_at is None:
            return True
        if self._probing or self.closes_in_s > 0:
            return False
        self._probing = True
        return True

    @property
    def closes_in_s(self) -> float:
        """Seconds until a probe is let through; 0 when calls pass."""
        if self._opened_at is None:
            return 0.0
        return max(0.0, self._opened_at + self._cool_down_s - self._clock())

    def record(self, *, unwell: bool) -> None:
        self._probing = False
        if not unwell:
            self._failures, self._opened_at = 0, None
            return
        self._failures += 1
        if self._failures >= self._failures_to_open:
            self._opened_at = self._clock()

    def abandon(self) -> None:
        """Ends a call that found nothing out, for example a cancelled one."""
        self._probing = False


@dataclass(frozen=True)
class Gate:
    """The limits on a tenant's calls of one tool in this process."""

    places: FairSemaphore
    """All tenants share them; of the operator's resource, one tenant leaves one to the others."""
    breaker: Breaker
    """The tenant's own: what its arguments break is well for the others."""


class Gates:
    """Gates by tool version and model; the least recently used are forgotten."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._places: OrderedDict[tuple[Hashable, str], _Resource] = OrderedDict()
        self._breakers: OrderedDict[tuple[str, ToolDefinition, str], Breaker] = OrderedDict()

    def of(self, tenant: str, tool: ToolDefinition, model_alias: str) -> Gate:
        key, own = (tool.resource, model_alias), (tenant, tool, model_alias)
        resource = self._places.pop(key, None) or _Resource()
        breaker = self._breakers.pop(own, None) or Breaker()
        self._places[key], self._breakers[own] = resource, breaker
        for kept in (self._places, self._breakers):
            while len(kept) > GATES_KEPT:
                kept.popitem(last=False)
        return Gate(resource.places_for(tool, self._now_s()), breaker)


class _Resource:
    """The slots of a called resource; the strictest of the operator's tools sets their number."""

    def __init__(self) -> None:
        self._places = FairSemaphore(0)
        # Version and limit of the operator's tools, by name.
        self._operators: dict[str, tuple[int, int]] = {}
        # When tenants' tools stated a limit last: the operator's as the registry has it, or their
        # own where the operator has no tool of the resource.
        self._tenants: dict[int, float] = {}
        self._count = 0

    def places_for(self, tool: ToolDefinition, now_s: float) -> FairSemaphore:
        limit = tool.limits.max_concurrency
        if tool.shared:
            newest = max((tool.version, limit), self._operators.get(tool.name, (0, 0)))
            self._operators[tool.name] = newest
        else:
            recent = now_s - STATED_S
            self._tenants = {each: at for each, at in self._tenants.items() if at > recent}
            self._tenants[limit] = now_s
        # Of tenants the most generous, so that none limits its neighbours.
        counts = [most for _, most in self._operators.values()] + [*sorted(self._tenants)[-1:]]
        if min(counts) != self._count:
            self._count = min(counts)
            # One tenant leaves a place of what all share to the others.
            per_tenant = self._count if tool.resource == tool else max(1, self._count - 1)
            self._places.resize(self._count, per_tenant)
        return self._places
