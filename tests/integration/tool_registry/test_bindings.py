import grpc
import pytest

from callers import make_identity
from integration.tool_registry.builders import make_spec
from integration.tool_registry.running_registry import Caller, RunningRegistry, rejected
from podium.registry.v1 import policy_pb2
from podium.registry.v1 import policy_service_pb2 as pb
from podium_kit.rpc.identity import Scope

KEY = "key:3f2a9c0d1e4b5a67"
ADMIT = policy_pb2.UNKNOWN_PRICE_RULE_ADMIT


def named(name: str) -> policy_pb2.ToolSelector:
    return policy_pb2.ToolSelector(names=[name])


def developer(registry: RunningRegistry, *groups: str, tenant: str = "acme") -> Caller:
    return registry.calling(make_identity(tenant, "dan", (Scope.EPISODES_RUN,), groups))


async def with_mail_and_a_ban(registry: RunningRegistry) -> Caller:
    ada = registry.as_()
    await ada.register(make_spec("mail"))
    await ada.create_policy("loose", allow=named("mail"))
    await ada.create_policy("no-mail", deny=named("mail"))
    return ada


@pytest.mark.parametrize("policy", ["", "balanced", "loose"])
@pytest.mark.parametrize("principal", ["team:search", "role:developer", "user:dan", KEY])
async def test_a_bound_caller_escapes_by_no_name_of_a_policy(
    registry: RunningRegistry, policy: str, principal: str
) -> None:
    ada = await with_mail_and_a_ban(registry)
    groups = () if principal == "user:dan" else (principal,)
    dan = developer(registry, "team:other", *groups)
    assert (await dan.decided(policy)).allowed
    assert [tool.name for tool in (await dan.resolve(policy)).toolset.tools] == ["mail"]
    bound = await ada.bind("no-mail", principal)
    assert (bound.principal, bound.policy, bound.created_by) == (principal, "no-mail", "ada")
    # The running episode and the next one; no one else.
    decision = await dan.decided(policy)
    assert not decision.allowed
    assert decision.reason == "denied by name mail (policy no-mail, which binds the caller)"
    assert not (await dan.resolve(policy)).toolset.tools
    assert (await ada.decided(policy)).allowed
    await registry.as_("zeta").register(make_spec("mail"))
    assert (await developer(registry, *groups, tenant="zeta").decided("balanced")).allowed
    await ada.unbind("no-mail", principal)
    assert (await dan.decided(policy)).allowed


async def test_all_that_binds_a_caller_tightens_together(registry: RunningRegistry) -> None:
    ada = await with_mail_and_a_ban(registry)
    for name in ("calendar", "search", "shell"):
        await ada.register(make_spec(name))
    registry.budgets.ids |= {"all", "team"}
    await registry.platform().create_policy("platform-floor", deny=named("shell"))
    await ada.create_policy("floor", approval=named("search"), budget_ids=["all"])
    await ada.create_policy("watched", approval=named("calendar"), budget_ids=["team"])
    await ada.bind("no-mail", "role:developer")
    await ada.bind("watched", "team:search")
    dan = developer(registry, "role:developer", "team:search")
    toolset = (await dan.resolve("balanced")).toolset
    assert [tool.name for tool in toolset.tools] == ["calendar", "search"]
    assert all(tool.needs_approval for tool in toolset.tools)
    assert list(toolset.budget_ids) == ["all", "team"]
    # Without the team its rules are gone, the tenant's and the platform's stay.
    toolset = (await developer(registry).resolve("balanced")).toolset
    assert [tool.name for tool in toolset.tools] == ["calendar", "mail", "search"]
    assert [tool.needs_approval for tool in toolset.tools] == [False, False, True]


async def test_the_platforms_floor_binds_every_tenant_and_no_tenant_writes_it(
    registry: RunningRegistry,
) -> None:
    ada = await with_mail_and_a_ban(registry)
    await registry.platform().create_policy("platform-floor", deny=named("mail"))
    assert (await ada.decided("loose")).reason.endswith("(the platform's floor)")
    for attempt in (
        ada.create_policy("platform-floor"),
        ada.policies.DeletePolicy(pb.DeletePolicyRequest(name="platform-floor")),
    ):
        assert (await rejected(attempt)).code() is grpc.StatusCode.PERMISSION_DENIED
    assert not (await ada.decided("loose")).allowed
    # An episode that names the floor itself stands on it as well.
    assert not (await ada.decided("platform-floor")).allowed


async def test_what_is_shared_does_not_tell_who_made_it(registry: RunningRegistry) -> None:
    operator, ada = registry.platform(), registry.as_()
    made = await operator.register(make_spec("search"), shared=True)
    await operator.create_policy("platform-floor")
    await ada.register(make_spec("mail"))
    await ada.create_policy("mine")
    listed = await ada.policies.ListPolicies(pb.ListPoliciesRequest())
    makers = {each.spec.name: each.created_by for each in listed.policies}
    assert (makers["platform-floor"], makers["mine"]) == ("", "ada")
    shared = await ada.get("search")
    assert (shared.shared, shared.created_by, made.tool.created_by) == (True, "", "")
    assert (await ada.get("mail")).created_by == "ada"


async def test_an_admin_reads_what_another_caller_may_use_and_by_which_rule(
    registry: RunningRegistry,
) -> None:
    ada = await with_mail_and_a_ban(registry)
    await ada.bind("no-mail", "team:search")
    explained = {
        principals: await ada.policies.ExplainToolset(
            pb.ExplainToolsetRequest(policy="loose", principals=principals)
        )
        for principals in ((), ("team:other",), ("team:search", "user:eve"))
    }
    decisions = {who: reply.decisions[0] for who, reply in explained.items()}
    assert decisions[()].allowed and decisions["team:other",].allowed
    assert decisions["team:search", "user:eve"].reason == (
        "denied by name mail (policy no-mail, which binds the caller)"
    )
    # Who is bound by what is for admins alone.
    other = developer(registry).policies.ExplainToolset(
        pb.ExplainToolsetRequest(principals=["team:search"])
    )
    assert (await rejected(other)).code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_default_that_is_an_old_floor_stands_on_the_new_one(
    registry: RunningRegistry,
) -> None:
    ada = await with_mail_and_a_ban(registry)
    await ada.create_policy("floor")
    await ada.policies.ActivatePolicy(pb.ActivatePolicyRequest(name="floor", version=1))
    await ada.create_policy("floor", deny=named("mail"))
    assert not (await ada.decided("")).allowed


async def test_a_bound_policy_stays_and_its_newest_version_binds(
    registry: RunningRegistry,
) -> None:
    ada = await with_mail_and_a_ban(registry)
    await ada.bind("no-mail", "user:dan")
    delete = ada.policies.DeletePolicy(pb.DeletePolicyRequest(name="no-mail"))
    assert "is bound to" in ((await rejected(delete)).details() or "")
    await ada.create_policy("no-mail", deny=named("calendar"))
    assert (await developer(registry).decided("loose")).allowed


async def test_who_cannot_bind_and_what_cannot_be_bound(registry: RunningRegistry) -> None:
    ada = await with_mail_and_a_ban(registry)
    zoe = registry.as_("zeta")
    dan = developer(registry)
    for caller, policy, principal, code, words in (
        (ada, "no-mail", "search", "INVALID_ARGUMENT", "give role:, team:"),
        (ada, "no-mail", "role:boss", "INVALID_ARGUMENT", "there is no role boss"),
        (ada, "no-mail", "team:", "INVALID_ARGUMENT", "printable"),
        (ada, "none", "team:search", "NOT_FOUND", "no policy none"),
        (zoe, "no-mail", "team:search", "NOT_FOUND", "no policy no-mail"),
        (dan, "no-mail", "team:search", "PERMISSION_DENIED", "tenant:admin"),
    ):
        error = await rejected(caller.bind(policy, principal))
        assert (error.code().name, words in (error.details() or "")) == (code, True)
    error = await rejected(ada.unbind("no-mail", "team:search"))
    assert error.code() is grpc.StatusCode.NOT_FOUND


async def test_bindings_are_listed_in_pages_for_the_tenant_alone(
    registry: RunningRegistry,
) -> None:
    ada = await with_mail_and_a_ban(registry)
    for principal in ("team:b", "team:a", "role:auditor"):
        await ada.bind("no-mail", principal)
    first = await ada.bind("loose", "team:a")
    assert (await ada.bind("loose", "team:a")) == first
    listed, token = [], ""
    while True:
        request = pb.ListPolicyBindingsRequest(page_size=3, page_token=token)
        page = await ada.policies.ListPolicyBindings(request)
        listed += [(one.principal, one.policy) for one in page.bindings]
        if not (token := page.next_page_token):
            break
    assert listed == [
        ("role:auditor", "no-mail"),
        ("team:a", "loose"),
        ("team:a", "no-mail"),
        ("team:b", "no-mail"),
    ]
    theirs = await registry.as_("zeta").policies.ListPolicyBindings(pb.ListPolicyBindingsRequest())
    assert not theirs.bindings
