from importlib.metadata import version

from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    OpenIdConnectSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from gateway.a2a_server.models import PATH
from gateway.oidc.issuers import OidcIssuer
from podium_kit.attachments import MEDIA_TYPES

# Newest first: clients take the first that they speak. Both are served at one path.
PROTOCOL_VERSIONS = ("1.0", "0.3")
TEXT = "text/plain"
JSON = "application/json"
INPUT_MODES = (TEXT, JSON, *MEDIA_TYPES)
DESCRIPTION = (
    "Solves tasks: a small orchestrator calls tools and larger models, in durable episodes, as your"
    " tenant's policy allows and within its budget."
)


def agent_card(base_url: str, issuers: tuple[OidcIssuer, ...]) -> AgentCard:
    """The same for every tenant: what a task may use and spend is decided by who asks."""
    schemes = security_schemes(issuers)
    interfaces = [
        AgentInterface(url=f"{base_url}{PATH}", protocol_binding="JSONRPC", protocol_version=each)
        for each in PROTOCOL_VERSIONS
    ]
    return AgentCard(
        name="Podium",
        description=DESCRIPTION,
        version=version("podium-platform"),
        supported_interfaces=interfaces,
        capabilities=AgentCapabilities(streaming=True),
        security_schemes=schemes,
        # Any one of them.
        security_requirements=[
            SecurityRequirement(schemes={name: StringList()}) for name in schemes
        ],
        default_input_modes=INPUT_MODES,
        default_output_modes=[TEXT],
        skills=[skill()],
    )


def skill() -> AgentSkill:
    return AgentSkill(
        id="run_task",
        name="Run a task",
        description=f"{DESCRIPTION} `metadata.podium` of a message takes policy, tools, model,"
        " budget_usd, turn_limit, time_limit_s, parallel_calls and labels.",
        tags=["orchestration", "tools", "reasoning"],
        examples=["Which currency code does Vietnam use?"],
        input_modes=INPUT_MODES,
        output_modes=[TEXT],
    )


def security_schemes(issuers: tuple[OidcIssuer, ...]) -> dict[str, SecurityScheme]:
    """An API key in either header, or a token of an identity provider."""
    bearer = HTTPAuthSecurityScheme(
        scheme="Bearer", description="an API key of the platform, as pod_..."
    )
    header = APIKeySecurityScheme(location="header", name="x-api-key", description="the same key")
    schemes = {
        "apiKey": SecurityScheme(http_auth_security_scheme=bearer),
        "apiKeyHeader": SecurityScheme(api_key_security_scheme=header),
    }
    for number, issuer in enumerate(issuers, start=1):
        provider = OpenIdConnectSecurityScheme(
            open_id_connect_url=f"{issuer.issuer.rstrip('/')}/.well-known/openid-configuration",
            description=f"a token for the audience {issuer.audience}",
        )
        schemes[f"oidc{number}"] = SecurityScheme(open_id_connect_security_scheme=provider)
    return schemes
