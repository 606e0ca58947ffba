from collections.abc import Iterable
from typing import Any

import jwt

from gateway.audit.models import Claimant
from gateway.errors import InvalidToken, NoRole
from gateway.oidc.issuers import OidcIssuer, claim, written
from gateway.oidc.provider import IdentityProviderClient
from podium_kit.rpc.identity import Identity, groups_of, scopes_of

SUBJECT_CHARACTERS_MAX = 128


class OidcVerifier:
    """Verifies tokens of the configured issuers; nothing of a token counts before that."""

    def __init__(self, issuers: Iterable[OidcIssuer]) -> None:
        self._issuers = {issuer.issuer: issuer for issuer in issuers}
        self._providers = {name: IdentityProviderClient(name) for name in self._issuers}

    async def verify(self, token: str) -> tuple[Identity, str]:
        """The caller, and the issuer. Raises InvalidToken, NoRole, IdentityProviderUnavailable."""
        claims, issuer = await self._claims(token)
        _require_audience(claims, issuer)
        return _identity(claims, issuer), issuer.issuer

    async def verify_id_token(self, token: str, issuer: OidcIssuer, nonce: str) -> Identity:
        """The person who signed in. Raises as `verify` does."""
        claims, signer = await self._claims(token)
        audience = claims.get("aud")
        if signer is not issuer or issuer.client_id not in (
            audience if isinstance(audience, list) else [audience]
        ):
            raise InvalidToken(f"the ID token is not for the client {issuer.client_id}")
        if claims.get("nonce") != nonce:
            raise InvalidToken("the ID token belongs to another sign-in; try again")
        return _identity(claims, issuer)

    def provider(self, issuer: str) -> IdentityProviderClient:
        return self._providers[issuer]

    async def _claims(self, token: str) -> tuple[dict[str, Any], OidcIssuer]:
        header, issuer = self._read(token)
        if header.get("alg") not in issuer.algorithms:
            raise InvalidToken(
                f"the token is signed with {header.get('alg')}; "
                f"{issuer.issuer} may use {', '.join(issuer.algorithms)}"
            )
        key = await self._providers[issuer.issuer].key(header.get("kid"))
        return _verified(token, key, issuer), issuer

    async def close(self) -> None:
        for keys in self._providers.values():
            await keys.close()

    def _read(self, token: str) -> tuple[dict[str, Any], OidcIssuer]:
        try:
            header = jwt.get_unverified_header(token)
            claims = jwt.decode(token, options={"verify_signature": False})
        except jwt.PyJWTError as error:
            raise InvalidToken("the token is neither an API key nor a JWT") from error
        issuer = self._issuers.get(str(claims.get("iss")))
        if issuer is None:
            raise InvalidToken("the token comes from an issuer this platform does not know")
        return header, issuer


def _verified(token: str, key: jwt.PyJWK, issuer: OidcIssuer) -> dict[str, Any]:
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=list(issuer.algorithms),
            issuer=issuer.issuer,
            leeway=issuer.clock_skew_s,
            # Some providers name it in another claim.
            options={"require": ["exp", "iss"], "verify_aud": False},
        )
    except jwt.ExpiredSignatureError as error:
        raise InvalidToken("the token has expired; sign in again") from error
    except (jwt.ImmatureSignatureError, jwt.InvalidIssuedAtError) as error:
        raise InvalidToken("the token is not valid yet; check the provider's clock") from error
    except jwt.MissingRequiredClaimError as error:
        raise InvalidToken(f"the token lacks the claim {error.claim}") from error
    except (jwt.PyJWTError, TypeError, ValueError) as error:
        raise InvalidToken("the token's signature is not valid") from error
    return claims


def _require_audience(claims: dict[str, Any], issuer: OidcIssuer) -> None:
    names = " and ".join(issuer.audience_claims)
    match issuer.is_audience_of(claims):
        case None:
            raise InvalidToken(f"the token lacks the claim {names}")
        case False:
            raise InvalidToken(f"the token is not for {issuer.audience}, see its {names}")


def _identity(claims: dict[str, Any], issuer: OidcIssuer) -> Identity:
    subject = claim(claims, issuer.subject_claim)
    if (
        not isinstance(subject, str)
        or not 1 <= len(subject.strip()) <= len(subject) <= SUBJECT_CHARACTERS_MAX
        or not subject.isprintable()
    ):
        raise InvalidToken(
            f"the token's claim {issuer.subject_claim} must be 1 to {SUBJECT_CHARACTERS_MAX} "
            "printable characters"
        )
    tenant = issuer.tenant_of(claims)
    if tenant is None:
        raise InvalidToken(
            f"the token's claim {issuer.tenant_claim} names no tenant of {issuer.issuer}"
        )
    names = issuer.names_of_roles(claims)
    roles = [issuer.roles[name] for name in names if name in issuer.roles]
    if not roles:
        claimant = Claimant(tenant, subject, f"oidc {issuer.issuer}")
        raise NoRole(claimant, written(issuer.roles_claim), names)
    groups = groups_of(roles, issuer.teams_of(claims), issuer.agents_of(claims))
    return Identity(tenant, subject, scopes_of(roles), groups)
