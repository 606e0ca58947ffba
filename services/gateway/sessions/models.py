import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta

from podium_kit.rpc.identity import Identity

# The prefix binds it to this host, to https and to no other path (RFC 6265bis, section 4.1.3).
COOKIE = "__Host-podium"
IDLE_MAX = timedelta(hours=1)
LIFETIME = timedelta(hours=8)
# The use of a session is written this often.
TOUCH_INTERVAL = timedelta(minutes=1)


@dataclass(frozen=True)
class ConsoleSession:
    """A sign-in of a person; the cookie has its secret, the database the secret's digest."""

    digest: bytes
    identity: Identity
    # As the audit log names it.
    credential: str
    # The API key that signed in; None for a person of an identity provider.
    key_id: str | None
    create_time: datetime
    last_used_time: datetime
    expire_time: datetime

    def is_over(self, now: datetime) -> bool:
        return now >= self.expire_time or now >= self.last_used_time + IDLE_MAX


def digest_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def csrf_token(secret: str) -> str:
    """Returns the token that a request which changes something carries in a header.

    A foreign page can neither read it nor compute it without the cookie.
    """
    return hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()
