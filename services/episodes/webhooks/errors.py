"""What can be wrong with a request about webhooks."""

from podium_kit.rpc.errors import InvalidArgument, NotFound, ResourceExhausted


class InvalidWebhook(InvalidArgument):
    """A field of a webhook cannot be taken."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field} {rule}", param=field)


class TooManyWebhooks(ResourceExhausted):
    """The tenant has as many as it may have."""

    def __init__(self, maximum: int) -> None:
        super().__init__(f"your tenant has {maximum} webhooks; delete one first")


class WebhookNotFound(NotFound):
    """No such webhook, or no such delivery, for this tenant."""

    def __init__(self, webhook_id: str, what: str = "") -> None:
        super().__init__(what or f"there is no webhook {webhook_id}", webhook_id=webhook_id)
