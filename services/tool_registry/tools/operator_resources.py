"""Resources of the operator that tools of tenants name: functions, the sandbox, programs that speak
MCP, corpora.

A name is a tenant's to choose; what is called under it is the operator's. So a tenant's tool of a
resource that a shared tool offers has that tool's price, limits and side effect, and every rule of
a policy for that tool is one for it.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from podium_kit.metering import OWN, is_own
from podium_kit.tool_kinds.checks import InvalidTool
from tool_registry.models import ToolSpec, ToolVersion

Versions = Mapping[str, tuple[ToolVersion, ...]]
# A tenant's spec with the terms of the operator's, and with tags; whether its effect is known, too.
WithTerms = Callable[[bytes, bytes, Set[str], bool], bytes]


@dataclass(frozen=True, eq=False)
class OperatorResources:
    """Shared tools by what they call: a resource, and the server that it is part of."""

    by_resource: Mapping[tuple[str, ...], Sequence[ToolSpec]]
    with_terms: WithTerms

    @classmethod
    def of(cls, shared: Versions, with_terms: WithTerms) -> "OperatorResources":
        """Returns the resources of shared tools; a withdrawn tool still states cost and effect."""
        found: dict[tuple[str, ...], list[ToolSpec]] = {}
        for versions in shared.values():
            current = [version for version in versions if version.current]
            spec = (current or versions)[-1].spec
            for end in range(2, len(spec.resource) + 1):
                found.setdefault(spec.resource[:end], []).append(spec)
        return cls(found, with_terms)

    def check(self, spec: ToolSpec) -> None:
        if not spec.resource:
            return
        if operators := self.by_resource.get(spec.resource):
            _check_price(spec, operators)
            return
        if offered := self._of_server(spec):
            names = ", ".join(each.name for each in offered)
            raise InvalidTool(
                f"{spec.resource[-1]} of the server {spec.resource[1]} is not offered to tenants; "
                f"the platform's tools of it are {names}"
            )
        if spec.kind.shared_only:
            raise InvalidTool(
                f"{spec.resource[1]} is a program of the operator, who has shared no tool of it; "
                "have the platform's admin register one (`podium tools import-mcp --shared`)"
            )
        if spec.kind.priced_by_operator and is_own(spec.sku):
            raise InvalidTool(
                f"sku {spec.sku} is one that a tenant prices, and {' '.join(spec.resource)} is the "
                f"operator's; name it without {OWN!r}, like tool/{spec.name}"
            )

    def bound(self, versions: tuple[ToolVersion, ...]) -> tuple[ToolVersion, ...]:
        return tuple(map(self._bound, versions))

    def _bound(self, version: ToolVersion) -> ToolVersion:
        spec = version.spec
        own = self.by_resource.get(spec.resource, ())
        if not (operators := own or self._of_server(spec)):
            return version
        # The one that the tenant names by its price, where several offer the resource.
        operator = next((each for each in operators if each.sku == spec.sku), operators[0])
        tags = spec.tags.union(*(each.tags for each in operators))
        bound = replace(
            spec,
            sku=operator.sku,
            provider=operator.provider,
            timeout_s=operator.timeout_s,
            tags=tags,
            aliases=frozenset(each.name for each in operators),
            wire=self.with_terms(spec.wire, operator.wire, tags, bool(own)),
        )
        return replace(version, spec=bound)

    def _of_server(self, spec: ToolSpec) -> Sequence[ToolSpec]:
        return self.by_resource.get(spec.resource[:2], ()) if len(spec.resource) > 2 else ()


def _check_price(spec: ToolSpec, operators: Sequence[ToolSpec]) -> None:
    """Rejects a price of the tenant's: what it names of the operator's selects one of them."""
    skus = sorted({each.sku for each in operators if each.sku})
    if spec.sku and spec.sku not in skus:
        theirs = f", or name {' or '.join(skus)}" if skus else ""
        raise InvalidTool(
            f"sku {spec.sku} would have no effect: {' '.join(spec.resource)} has the operator's"
            f" price; leave it unset{theirs}"
        )


NO_RESOURCES = OperatorResources({}, lambda own, *_: own)
