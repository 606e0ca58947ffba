from podium_kit.rpc.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unavailable,
)


class InvalidSchema(InvalidArgument):
    def __init__(self, field: str, path: str, problem: str) -> None:
        super().__init__(f"{field} at {path}: {problem}", field=field, path=path)


class InvalidFacts(InvalidArgument):
    pass


class ToolNotFound(NotFound):
    def __init__(self, name: str, version: int = 0) -> None:
        what = f"tool {name} has no version {version}" if version else f"there is no tool {name}"
        super().__init__(what, tool=name)


class ToolDeprecated(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"every version of tool {name} is deprecated; name a version to read it", tool=name
        )


class InvalidActivation(InvalidArgument):
    pass


class InvalidFollowing(InvalidArgument):
    pass


class FollowedElsewhere(AlreadyExists):
    def __init__(self, name_prefix: str) -> None:
        super().__init__(
            f"another followed server has this id, or names that begin like {name_prefix}; "
            "give this one another id and name_prefix",
            name_prefix=name_prefix,
        )


class NotFollowed(NotFound):
    def __init__(self, server_id: str) -> None:
        super().__init__(f"no tools of an MCP server {server_id} are followed", id=server_id)


class NotTheServers(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is no tool of the followed server", tool=name)


class OutsideFollowing(PermissionDenied):
    pass


class ToolRejected(FailedPrecondition):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"tool {name} is not allowed: {reason}", tool=name)


class SharedToolStays(PermissionDenied):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is a tool of every tenant; a platform admin changes it "
            "(`--shared` on the platform's machine). A policy of yours can deny it",
            tool=name,
        )


class NameTaken(AlreadyExists):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is a tool of the platform; give yours another name", tool=name)


class NameAlike(AlreadyExists):
    def __init__(self, name: str, other: str) -> None:
        super().__init__(
            f"{name} differs from the tool {other} in capitals alone; give it another name",
            tool=name,
        )


class NameTakenByTenants(AlreadyExists):
    def __init__(self, name: str, tenants: int) -> None:
        super().__init__(
            f"{name} names a tool of {tenants} tenants; give the shared one another name", tool=name
        )


class InvalidPolicy(InvalidArgument):
    pass


class UnpricedModel(InvalidArgument):
    def __init__(self, model: str, sku: str, policy: str, budget_id: str) -> None:
        priced = f"{sku} has no price" if sku else "it is unset"
        super().__init__(
            f"{model}: {priced}, and the policy {policy} admits unknown prices under the budget"
            f" {budget_id}, which such calls would pass uncounted; import a price first (`podium"
            " prices import`), or have the policy reject unknown prices or admit them at its"
            " ceiling",
            policy=policy,
        )


class PresetName(AlreadyExists):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is a preset; choose another name, and {name} as the preset to start from",
            policy=name,
        )


class PresetDisabled(FailedPrecondition):
    def __init__(self, name: str, floor: str) -> None:
        super().__init__(
            f"{name} is a preset, and {floor} allows none; "
            "name a policy of the tenant's own, or activate one",
            policy=name,
        )


class InvalidBinding(InvalidArgument):
    pass


class TooManyBindings(FailedPrecondition):
    def __init__(self, maximum: int) -> None:
        super().__init__(
            f"the tenant has {maximum} bindings already; bind a policy to a team or a role"
        )


class BindingNotFound(NotFound):
    def __init__(self, policy: str, principal: str) -> None:
        super().__init__(f"policy {policy} is not bound to {principal}", policy=policy)


class PolicyUsed(FailedPrecondition):
    def __init__(self, name: str, version: int, why: str) -> None:
        super().__init__(
            f"version {version} of policy {name} {why}; it stays, because what was decided under it"
            " refers to it. Activate another policy, or create a new version",
            policy=name,
        )


class PresetStays(FailedPrecondition):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is a preset and cannot be deleted; a policy named floor with no_presets"
            " keeps episodes from it",
            policy=name,
        )


class PolicyNotFound(NotFound):
    def __init__(self, name: str, version: int = 0) -> None:
        what = f"policy {name} has no version {version}" if version else f"no policy {name}"
        super().__init__(what, policy=name)


class PricesUnavailable(Unavailable):
    def __init__(self) -> None:
        super().__init__("cost-ledger does not answer, so no price is known now; try again")
