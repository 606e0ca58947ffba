"""A client of Podium: episodes, tools, policies, budgets, prices and the ledger.

from podium_client import Podium

with Podium() as podium:  # PODIUM_URL and PODIUM_API_KEY
    episode = podium.episodes.run("Which currency does Vietnam use?", budget="0.01")
    print(episode.answer, episode.cost)
"""

from podium_client import models
from podium_client._async.client import AsyncPodium
from podium_client._async.pages import AsyncPages
from podium_client._sync.client import Podium
from podium_client._sync.pages import Pages
from podium_client.errors import (
    ApiError,
    BadRequest,
    BudgetExhausted,
    ConfigurationError,
    Conflict,
    ConnectionFailed,
    EpisodeUnanswered,
    NotFound,
    PermissionDenied,
    PodiumError,
    RateLimited,
    ServerError,
    Unauthenticated,
    Unavailable,
)
from podium_client.events import EpisodeEvent
from podium_client.ids import new_id
from podium_client.orders import EpisodeOptions, money
from podium_client.retries import RetryPolicy
from podium_client.version import VERSION
from podium_client.webhook_events import InvalidWebhook, WebhookEvent, verify_webhook

__version__ = VERSION
__all__ = [
    "ApiError",
    "AsyncPages",
    "AsyncPodium",
    "BadRequest",
    "BudgetExhausted",
    "ConfigurationError",
    "Conflict",
    "ConnectionFailed",
    "EpisodeEvent",
    "EpisodeOptions",
    "EpisodeUnanswered",
    "InvalidWebhook",
    "NotFound",
    "Pages",
    "PermissionDenied",
    "Podium",
    "PodiumError",
    "RateLimited",
    "RetryPolicy",
    "ServerError",
    "Unauthenticated",
    "Unavailable",
    "WebhookEvent",
    "__version__",
    "models",
    "money",
    "new_id",
    "verify_webhook",
]
