import json
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from podium_kit.client.errors import UsageError
from podium_kit.crypto.key_file import InvalidKeyFile, KeyFile, new_key_line
from podium_kit.rpc.identity import Identity, Role, Scope, acting_as
from podium_operations.local.state import StateFolder, write_private

# Who signs tokens: the gateway for its callers, the others for work they do by themselves.
# A limit keeps those from administering anything: every change goes through the gateway.
SCOPES_OF_SIGNER: dict[str, tuple[str, ...] | None] = {
    "gateway": None,
    "episodes": (Scope.LEDGER_WRITE.value, Scope.EPISODES_RUN.value),
    "episode-worker": (Scope.LEDGER_WRITE.value, Scope.EPISODES_RUN.value),
    # Reports what it measured and what vectors of corpora cost, and keeps tools of followed MCP
    # servers up to date.
    "tool-adapters": (
        Scope.FACTS_WRITE.value,
        Scope.TOOLS_FOLLOW.value,
        Scope.EMBEDDINGS_RECORD.value,
    ),
}
MASTER_KEYS, PAYLOAD_KEYS = "master-keys", "payload-keys"


@dataclass(frozen=True)
class SigningKeys:
    folder: Path

    @property
    def verify_keys_file(self) -> Path:
        return self.folder / "verify-keys.json"

    @property
    def anchor_key_file(self) -> Path:
        """Private key that signs the ledger's daily roots."""
        return self.folder / "ledger-anchor.pem"

    @property
    def master_keys_file(self) -> Path:
        """The keys that encrypt secrets of tenants and users."""
        return self.folder / MASTER_KEYS

    @property
    def payload_keys_file(self) -> Path:
        """The keys that encrypt the histories in Temporal."""
        return self.folder / PAYLOAD_KEYS

    def private_key_file(self, signer: str) -> Path:
        return self.folder / f"{signer}.pem"


def ensure_keys(folder: Path) -> SigningKeys:
    keys = SigningKeys(folder)
    public = {
        name: _verify_key(_private_key(keys.private_key_file(name)), scopes)
        for name, scopes in SCOPES_OF_SIGNER.items()
    }
    write_private(keys.verify_keys_file, json.dumps(public))
    _private_key(keys.anchor_key_file)
    for path in (keys.master_keys_file, keys.payload_keys_file):
        if not path.exists():
            write_private(path, new_key_line("1"))
    return keys


def master_key_fingerprints(folder: Path) -> dict[str, str]:
    path = folder / MASTER_KEYS
    try:
        return KeyFile(path).fingerprints()
    except InvalidKeyFile as error:
        raise UsageError(f"{path} {error}", "bring the file of the installation back") from error


def _verify_key(key: Ed25519PrivateKey, scopes: tuple[str, ...] | None) -> object:
    pem = _public_pem(key)
    return pem if scopes is None else {"public_key": pem, "scopes": scopes}


def _private_key(path: Path) -> Ed25519PrivateKey:
    if not path.exists():
        pem = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        write_private(path, pem.decode())
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise TypeError(f"{path} holds no Ed25519 key")
    return key


def _public_pem(key: Ed25519PrivateKey) -> str:
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


TENANT = "default"
# Its own: an admin of the user's tenant must not administer the key of the platform's admin.
PLATFORM_TENANT = "platform"
SUBJECT = "podium-up"


@dataclass(frozen=True)
class LocalKeys:
    """Secrets: the tenant's own key, and the one that may change what every tenant sees."""

    tenant: str
    platform: str


async def ensure_api_keys(state: StateFolder, gateway_url: str, database_url: str) -> LocalKeys:
    """The keys of the state folder, made anew when the gateway does not know them."""
    keys = _stored(state)
    if keys is None or not await _work(gateway_url, keys):
        keys = LocalKeys(
            await issue_first_key(database_url, TENANT, SUBJECT, Role.TENANT_ADMIN),
            await issue_first_key(database_url, PLATFORM_TENANT, SUBJECT, Role.PLATFORM_ADMIN),
        )
        write_private(state.api_keys_file, json.dumps(asdict(keys)))
    return keys


def _stored(state: StateFolder) -> LocalKeys | None:
    try:
        return LocalKeys(**json.loads(state.api_keys_file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


async def _work(gateway_url: str, keys: LocalKeys) -> bool:
    async with httpx.AsyncClient(base_url=gateway_url, trust_env=False) as client:
        for key, tenant in ((keys.tenant, TENANT), (keys.platform, PLATFORM_TENANT)):
            headers = {"authorization": f"Bearer {key}", "x-podium-tenant": tenant}
            reply = await client.get("/v1/api-keys", headers=headers)
            if reply.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                return False
    return True


async def issue_first_key(database_url: str, tenant: str, subject: str, role: Role) -> str:
    """A key made at the gateway's database, where no key is asked for. Raises DomainError.

    The audit log of the tenant names the subject as its creator.
    """
    # Needed for first keys alone.
    from gateway.config import DatabaseSettings  # noqa: PLC0415
    from gateway.keys.models import KeyRequest  # noqa: PLC0415
    from gateway.keys.offline import api_keys  # noqa: PLC0415

    async with api_keys(DatabaseSettings(database_url=database_url)) as issued:
        with acting_as(Identity(tenant, subject, frozenset())):
            return (await issued.issue(KeyRequest(tenant, subject, roles=frozenset({role}))))[1]
