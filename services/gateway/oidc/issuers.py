import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FilePath, model_validator

from podium_kit.rpc.identity import Role

# The keys to a claim, from the outside in.
Keys = tuple[str, ...]
_STEP = re.compile(r"""\.(?P<name>[^.\[\]]+)|\[(?P<quote>["'])(?P<quoted>.+?)(?P=quote)\]""")


def _places(value: Any) -> Any:
    """A path, a list of keys, or a list of several of both, as the last."""
    if isinstance(value, str):
        return ((value,) if not value.startswith("$") else _steps(value),)
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("write a path like realm_access.roles, or a list of keys")
    if all(isinstance(key, str) for key in value):
        return (tuple(value),)
    return tuple(place for each in value for place in _places(each))


def _steps(path: str) -> Keys:
    """The keys of a JSON path of names alone (RFC 9535), like $.realms['my.client']."""
    found, at = [], 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"{path!r} is no JSON path of names, like $.realms['my.client'].roles")
        found.append(step["name"] or step["quoted"])
        at = step.end()
    if not found:
        raise ValueError(f"{path!r} names no claim")
    return tuple(found)


# Written as a path, as a list of keys, or as a list of several of them.
ClaimPlaces = Annotated[
    tuple[Annotated[Keys, Field(min_length=1)], ...],
    BeforeValidator(_places),
    Field(min_length=1, validate_default=True),
]


def values_at(claims: Mapping[str, Any], places: ClaimPlaces) -> Iterator[Any]:
    for keys in places:
        found: Any = claim(claims, keys[0]) if len(keys) == 1 else _inside(claims, keys)
        if found is not None:
            yield found


def words_at(claims: Mapping[str, Any], places: ClaimPlaces) -> list[str]:
    """Words of a list, of a text with spaces between, or the names of an object that has values."""
    words: list[str] = []
    for named in values_at(claims, places):
        if isinstance(named, str):
            words += named.split()
        elif isinstance(named, Mapping):
            words += [name for name, value in named.items() if value]
        elif isinstance(named, list):
            words += [word for word in named if isinstance(word, str)]
    return words


def written(places: ClaimPlaces) -> str:
    return " or ".join(".".join(keys) for keys in places)


def claim(claims: Mapping[str, Any], path: str) -> Any:
    """The value at a path like "realm_access.roles"; names may have dots, the longest counts."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        value = claims.get(".".join(parts[:count]))
        if count == len(parts):
            found = value
        else:
            rest = ".".join(parts[count:])
            found = claim(value, rest) if isinstance(value, Mapping) else None
        if found is not None:
            return found
    return None


def _inside(claims: Any, keys: Keys) -> Any:
    for key in keys:
        claims = claims.get(key) if isinstance(claims, Mapping) else None
    return claims


# Asymmetric ones only: with HS256 a verifier could also sign, with "none" anyone could.
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class OidcIssuer(BaseModel):
    """One provider; the claims of its tokens name tenant, subject and roles."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: str = Field(description="the tokens' iss, where discovery starts")
    audience: str = Field(description="the tokens' aud: this platform's client id or resource")
    algorithms: tuple[Algorithm, ...] = Field(("RS256", "ES256"), min_length=1)
    tenant: str = Field("", description="tenant of all of its users")
    tenant_claim: str = Field("", description="or the claim that names it, like org.id")
    tenants: frozenset[str] = Field(frozenset(), description="the only ones it may name")
    audience_claims: tuple[str, ...] = Field(
        ("aud",), min_length=1, description="the first of them that a token has names the audience"
    )
    subject_claim: str = Field("sub", description="the claim that names the person")
    roles_claim: ClaimPlaces = Field(
        (("roles",),), description="a path, a list of keys, or a list of several of them"
    )
    roles: dict[str, Role] = Field(description="the provider's words to roles, like podium-devs")
    teams_claim: ClaimPlaces = Field(
        (("groups",),), description="the claim that names teams, like roles_claim"
    )
    teams: dict[str, str] = Field({}, description="the provider's words to teams of policies")
    agents_claim: ClaimPlaces = Field(
        (("azp",),), description="the claim that names agents, like roles_claim"
    )
    agents: dict[str, str] = Field({}, description="the provider's words to agents of budgets")
    client_id: str = Field("", description="the console's client, to sign in with; unset: by key")
    client_secret_file: FilePath | None = Field(
        None, description="its secret; public clients have none"
    )
    sign_in_scopes: tuple[str, ...] = Field(
        ("openid", "profile", "email"), description="what the console's client asks for"
    )
    display_name: str = Field("", description="what the console calls it; unset: its host name")
    clock_skew_s: float = Field(30.0, ge=0, le=300, description="how far clocks may differ")

    @model_validator(mode="after")
    def _check(self) -> Self:
        parts = urlsplit(self.issuer)
        if parts.scheme != "https" and parts.hostname not in LOOPBACK:
            raise ValueError(f"issuer {self.issuer} must be an https URL")
        if bool(self.tenant) == bool(self.tenant_claim):
            raise ValueError("give tenant or tenant_claim, and not both")
        if self.tenant_claim and not self.tenants:
            raise ValueError("a provider that names tenants needs the list of those it may name")
        return self

    @property
    def shown_name(self) -> str:
        return self.display_name or urlsplit(self.issuer).hostname or self.issuer

    def tenant_of(self, claims: Mapping[str, Any]) -> str | None:
        """The tenant the claims belong to; None when it is none of the provider's."""
        if self.tenant:
            return self.tenant
        named = claim(claims, self.tenant_claim)
        return named if isinstance(named, str) and named in self.tenants else None

    def is_audience_of(self, claims: Mapping[str, Any]) -> bool | None:
        """True for a token of this platform; None when it names no audience."""
        for name in self.audience_claims:
            if (named := claims.get(name)) is not None:
                return self.audience in (named if isinstance(named, list) else [named])
        return None

    def names_of_roles(self, claims: Mapping[str, Any]) -> list[str]:
        return words_at(claims, self.roles_claim)

    def teams_of(self, claims: Mapping[str, Any]) -> list[str]:
        """The caller's teams; those that the provider alone knows bind no one."""
        words = words_at(claims, self.teams_claim) if self.teams else []
        return [self.teams[word] for word in words if word in self.teams]

    def agents_of(self, claims: Mapping[str, Any]) -> list[str]:
        words = words_at(claims, self.agents_claim) if self.agents else []
        return [self.agents[word] for word in words if word in self.agents]
