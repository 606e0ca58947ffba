from dataclasses import dataclass

from podium_kit.rpc.identity import Role, current_identity
from tool_registry.errors import InvalidBinding
from tool_registry.models import Binding
from tool_registry.policies.store_bindings import BindingStore

KINDS = ("role", "team", "user", "key")


@dataclass(frozen=True)
class PolicyBindings:
    store: BindingStore

    async def bind(self, policy: str, principal: str) -> Binding:
        _check(principal)
        identity = current_identity()
        return await self.store.bind(identity.tenant, policy, principal, identity.subject)

    async def unbind(self, policy: str, principal: str) -> Binding:
        return await self.store.unbind(current_identity().tenant, policy, principal)


def _check(principal: str) -> None:
    kind, _, name = principal.partition(":")
    if kind not in KINDS:
        kinds = ", ".join(f"{one}:" for one in KINDS)
        raise InvalidBinding(f"principal {principal!r} must begin with one of {kinds}")
    if not name.isprintable():
        raise InvalidBinding(f"principal: after {kind}: follow printable characters")
    if kind == "role" and name not in list(Role):
        raise InvalidBinding(f"principal: there is no role {name}; there are {', '.join(Role)}")
