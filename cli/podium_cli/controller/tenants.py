"""Whose objects a namespace's are: the tenant of the API key in its Secret."""

from pathlib import Path

from podium_cli.bootstrap.cluster_objects import ClusterObjects
from podium_cli.cluster.pod_account import ACCOUNT
from podium_cli.controller.settings import Settings
from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway


class NoTenant(UserError):
    """The namespace has no key."""


class Tenants:
    """Gateways by namespace, each with the key that its Secret holds now."""

    def __init__(self, settings: Settings, account: Path = ACCOUNT) -> None:
        self._settings = settings
        self._account = account

    async def gateway(self, namespace: str) -> Gateway:
        """As the namespace's tenant. Raises NoTenant, ClusterRejected."""
        name, key = self._settings.key_secret, self._settings.key_name
        objects = ClusterObjects(namespace, "", self._account)
        text = (await objects.secret(name) or {}).get(key)
        if not text:
            raise NoTenant(
                f"namespace {namespace} has no Secret {name} with {key}",
                f"kubectl -n {namespace} create secret generic {name} --from-literal={key}=pod_...,"
                " with a key of the tenant that may change tools, policies and budgets",
            )
        settings = self._settings
        return Gateway(settings.gateway_target, text.strip(), settings.gateway_authority)
