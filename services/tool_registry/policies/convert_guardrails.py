from collections.abc import Iterable

from podium.registry.v1 import guardrail_pb2, policy_pb2
from podium_kit.json_schemas.checks import checked_schema
from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.json_schemas.linear_patterns import PatternBudget, UnsupportedPattern, compiled
from podium_kit.tool_kinds.checks import InvalidTool, check_url, require_tls
from podium_kit.wire import duration_from_proto, duration_to_proto
from tool_registry.errors import InvalidPolicy, InvalidSchema
from tool_registry.models import PolicyGuardrail, Selector
from tool_registry.policies.compiled import ANSWER

CHECKS = ", ".join(
    field.name for field in policy_pb2.Guardrail.DESCRIPTOR.oneofs_by_name["check"].fields
)
REDACTING = frozenset({"secrets", "personal_data", "deny", "http"})
STAGES = {
    guardrail_pb2.GUARDRAIL_STAGE_INPUT: "input",
    guardrail_pb2.GUARDRAIL_STAGE_OUTPUT: "output",
    guardrail_pb2.GUARDRAIL_STAGE_ANSWER: ANSWER,
}
TIMEOUT_S = 2.0
TIMEOUT_MAX_S = 30.0
SKUS = "guardrails/"


def guardrail_from_proto(message: policy_pb2.Guardrail, tools: Selector) -> PolicyGuardrail:
    return PolicyGuardrail(
        tools=tools,
        stages=frozenset(STAGES[each] for each in message.stages or STAGES),
        wire=message.SerializeToString(deterministic=True),
    )


def guardrails_to_proto(guardrails: Iterable[PolicyGuardrail]) -> list[policy_pb2.Guardrail]:
    """Returns them for those who apply them, with every wait stated."""
    messages = [policy_pb2.Guardrail.FromString(each.wire) for each in guardrails]
    for each in messages:
        if each.HasField("http") and not each.http.HasField("timeout"):
            each.http.timeout.CopyFrom(duration_to_proto(TIMEOUT_S))
    return messages


def check_guardrails(guardrails: Iterable[policy_pb2.Guardrail]) -> None:
    """Raises InvalidPolicy for one that could not do what it says, InvalidSchema for a schema."""
    names: set[str] = set()
    patterns = PatternBudget()
    for place, each in enumerate(guardrails):
        field = f"guardrails[{place}]"
        if each.name in names:
            raise InvalidPolicy(f"{field}: another one is named {each.name}; rename one of them")
        names.add(each.name)
        _check(field, each, patterns)


def _check(field: str, guardrail: policy_pb2.Guardrail, patterns: PatternBudget) -> None:
    check = guardrail.WhichOneof("check")
    if check is None:
        raise InvalidPolicy(f"{field} ({guardrail.name}) checks nothing; set one of {CHECKS}")
    if not guardrail.action:
        raise InvalidPolicy(f"{field}.action is unset; write block, redact or flag")
    if guardrail_pb2.GUARDRAIL_STAGE_UNSPECIFIED in guardrail.stages:
        raise InvalidPolicy(f"{field}.stages: write input, output or answer")
    redacts = guardrail.action == guardrail_pb2.GUARDRAIL_ACTION_REDACT
    if redacts and check not in REDACTING:
        raise InvalidPolicy(f"{field}.action: {check} finds nothing to redact; block or flag")
    if guardrail.HasField("tools") and not guardrail.tools.ListFields():
        raise InvalidPolicy(f"{field}.tools names nothing; leave it unset to read every call")
    match check:
        case "personal_data":
            if guardrail_pb2.PERSONAL_DATA_KIND_UNSPECIFIED in guardrail.personal_data.kinds:
                raise InvalidPolicy(f"{field}.personal_data.kinds: write email, phone, card, ...")
        case "json_schema":
            _check_schema(f"{field}.json_schema.schema_json", guardrail.json_schema.schema_json)
        case "size":
            if not guardrail.size.max_characters:
                raise InvalidPolicy(f"{field}.size.max_characters is unset; set a limit above 0")
        case "deny":
            _check_deny_list(f"{field}.deny", guardrail.deny, patterns)
        case "http":
            _check_server(f"{field}.http", guardrail.http)


def _check_schema(field: str, text: str) -> None:
    try:
        checked_schema(text)
    except UnusableSchema as error:
        raise InvalidSchema(field, error.path, error.problem) from error


def _check_deny_list(field: str, deny: guardrail_pb2.DenyList, patterns: PatternBudget) -> None:
    if not deny.words and not deny.patterns:
        raise InvalidPolicy(f"{field} lists nothing; add words or patterns")
    if any(not word.strip() for word in deny.words):
        raise InvalidPolicy(f"{field}.words: a word is blank; remove it")
    for place, pattern in enumerate(deny.patterns):
        try:
            patterns.check(pattern)
        except UnsupportedPattern as error:
            raise InvalidPolicy(f"{field}.patterns[{place}]: {error.message}") from error
        if compiled(pattern).search(b""):
            raise InvalidPolicy(f"{field}.patterns[{place}] finds the empty text everywhere")


def _check_server(field: str, server: guardrail_pb2.HttpGuard) -> None:
    try:
        check_url(f"{field}.url", server.url)
        require_tls(f"{field}.url", server.url)
    except InvalidTool as error:
        raise InvalidPolicy(error.message) from error
    timeout_s = duration_from_proto(server.timeout) if server.HasField("timeout") else TIMEOUT_S
    if not 0 < timeout_s <= TIMEOUT_MAX_S:
        raise InvalidPolicy(f"{field}.timeout must be above 0 s, at most {TIMEOUT_MAX_S:g} s")
    if server.sku and not server.sku.startswith(SKUS):
        raise InvalidPolicy(f"{field}.sku {server.sku!r} does not begin with {SKUS}")
