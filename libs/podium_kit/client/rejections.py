from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import Any, Self

import httpx

from podium_kit.client.errors import UserError

Fetch = Callable[[str], Awaitable[dict[str, Any]]]

FIXES = {
    401: "check --api-key or PODIUM_API_KEY; `podium keys list` shows the keys",
    403: "use a key with the scope it names; an admin makes one with `podium keys create`",
    429: "wait a moment and try again",
    503: "wait a moment and try again; `podium status` shows what is unwell",
    504: "try again, or give it a longer time limit",
}
# Too many requests, or a service that is away for a while.
TEMPORARY = {429, 500, 502, 503, 504}
# Nothing a person can fix: where to look instead.
FAULT_FIX = "look into the logs folder of the state folder; `podium status` shows what is unwell"


class Rejected(UserError):
    def __init__(
        self,
        cause: str,
        fix: str,
        reason: str,
        metadata: dict[str, str],
        *,
        temporary: bool = False,
    ) -> None:
        """`temporary`: the same request may well succeed later."""
        super().__init__(cause, fix)
        self.temporary = temporary
        self.reason = reason
        self.metadata = metadata

    @classmethod
    def of(cls, reply: httpx.Response) -> Self:
        """Reads the error from the body, which may come from a proxy."""
        try:
            error: dict[str, Any] = reply.json()["error"]
            message = str(error["message"])
        except (ValueError, KeyError, TypeError):
            error, message = {}, f"{reply.url.host} answered HTTP {reply.status_code}"
        # The services' messages name the fix after a semicolon.
        cause, _, fix = message.partition("; ")
        reason = str(error.get("reason", ""))
        default = _SHOWN_BY.get(reason) or FIXES.get(
            reply.status_code, FAULT_FIX if reply.status_code >= 500 else ""
        )
        return cls(
            cause,
            fix or default,
            reason,
            error.get("metadata") or {},
            temporary=reply.status_code in TEMPORARY,
        )

    def with_fix(self, names: list[str]) -> Self:
        if names:
            self.fix = f"did you mean {' or '.join(names)}?"
        return self


async def near_names(fetch: Fetch, rejected: Rejected) -> list[str]:
    """Existing names close to the one that was not found; empty when there are none."""
    kind = rejected.reason.removesuffix("_NOT_FOUND").lower()
    wrong = rejected.metadata.get(kind) or rejected.metadata.get(f"{kind}_id")
    if not wrong or kind not in _LISTS:
        return []
    path, field, name_of = _LISTS[kind]
    # The list may be rejected too; then the first error is the one to report.
    try:
        items = (await fetch(path)).get(field, [])
    except UserError:
        return []
    known = [name_of(item) for item in items]
    return get_close_matches(wrong, known, n=3, cutoff=0.5)


# By kind: its list, the field of the reply, and the name of an item.
_LISTS: dict[str, tuple[str, str, Callable[[Any], str]]] = {
    "tool": ("/v1/tools?page_size=500", "tools", lambda tool: tool["spec"]["name"]),
    "policy": ("/v1/policies?page_size=500", "policies", lambda policy: policy["spec"]["name"]),
    "budget": ("/v1/budgets?page_size=500", "statuses", lambda status: status["budget"]["id"]),
    "model": ("/v1/models", "data", lambda model: model["id"]),
}
# Where the existing names of a kind are listed.
_SHOWN_BY = {
    "TOOL_NOT_FOUND": "`podium tools list` shows the tools",
    "POLICY_NOT_FOUND": "`podium policies list` shows the policies",
    "BUDGET_NOT_FOUND": "`podium budgets list` shows the budgets",
    "API_KEY_NOT_FOUND": "`podium keys list` shows the keys",
    "SECRET_NOT_FOUND": "`podium secrets list` shows the secrets",
    "EPISODE_NOT_FOUND": "`podium episodes list` shows the newest episodes",
    "WEBHOOK_NOT_FOUND": "`podium webhooks list` shows the webhooks",
    "CORPUS_NOT_FOUND": "`podium corpus list` shows the corpora",
    "MODEL_NOT_FOUND": "`podium models` shows the models",
}
