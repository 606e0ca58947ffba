import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import kopf

from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Unreachable
from podium_kit.client.rejections import Rejected
from podium_operations.bootstrap.cluster_objects import ClusterRejected
from podium_operations.cluster.api_server import ACCOUNT, server_url
from podium_operations.controller.kinds import KINDS, Applied, Kind, NoTenant, Tenants
from podium_operations.controller.settings import Settings

READY = "Ready"


def status_of(
    generation: int,
    before: Sequence[Mapping[str, Any]],
    found: Mapping[str, Any],
    *,
    reason: str,
    message: str,
) -> dict[str, Any]:
    """Ready when `found` says what holds; the time is that of the last change of Ready."""
    well = "True" if found else "False"
    last = next((each for each in before if each["type"] == READY), None)
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    condition = {
        "type": READY,
        "status": well,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": last["lastTransitionTime"]
        if last and last["status"] == well
        else now,
    }
    return {**found, "observedGeneration": generation, "conditions": [condition]}


log = logging.getLogger(__name__)

GROUP, VERSION = "podium.dev", "v1alpha1"
RETRY_S = 15.0


class Handlers:
    def __init__(self, settings: Settings, tenants: Tenants) -> None:
        self._settings = settings
        self._tenants = tenants

    def register(self, registry: kopf.OperatorRegistry) -> None:
        kopf.on.login(registry=registry)(_log_in)
        kopf.on.startup(registry=registry)(self._configure)
        for kind in KINDS:
            self._register(kind, registry)

    def _register(self, kind: Kind, registry: kopf.OperatorRegistry) -> None:
        where: dict[str, Any] = {"registry": registry}

        async def apply(
            *, namespace: str | None, name: str, body: kopf.Body, patch: kopf.Patch, **_: Any
        ) -> None:
            await self._apply(kind, namespace or "", name, body, patch)

        for on in (kopf.on.create, kopf.on.update, kopf.on.resume):
            on(GROUP, VERSION, kind.plural, id="apply", **where)(apply)
        kopf.on.timer(
            GROUP,
            VERSION,
            kind.plural,
            id="drift",
            interval=self._settings.drift_interval_s,
            initial_delay=self._settings.drift_interval_s,
            **where,
        )(apply)
        if kind.end:

            async def end(*, namespace: str | None, name: str, spec: kopf.Spec, **_: Any) -> None:
                await self._end(kind, namespace or "", name, spec)

            # The handler puts a finalizer on the object, which goes when it has succeeded.
            kopf.on.delete(GROUP, VERSION, kind.plural, id="end", **where)(end)

    def _configure(self, settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.persistence.finalizer = f"{GROUP}/ended"
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
        settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
            prefix=GROUP, key="applied"
        )
        # It would ask for rights on the whole cluster: kinds and namespaces are known.
        settings.scanning.disabled = True
        # Everything an event would say is in the conditions.
        settings.posting.enabled = False

    async def _apply(
        self, kind: Kind, namespace: str, name: str, body: kopf.Body, patch: kopf.Patch
    ) -> None:
        before = body.status.get("conditions", [])
        generation = int(body.metadata["generation"])
        try:
            applied = await self._applied(kind, namespace, name, body.spec)
        except UserError as error:
            status = status_of(
                generation, before, {}, reason=_reason(error), message=_sentence(error)
            )
            _put(patch, body, status)
            if _is_temporary(error):
                raise kopf.TemporaryError(str(error), delay=RETRY_S) from error
            return
        if applied.changed:
            log.info("%s %s/%s was applied", kind.plural, namespace, name)
        status = status_of(
            generation, before, applied.status, reason="Applied", message="it is as the spec says"
        )
        _put(patch, body, status)

    async def _applied(
        self, kind: Kind, namespace: str, name: str, spec: Mapping[str, Any]
    ) -> Applied:
        async with await self._tenants.gateway(namespace) as gateway:
            return await kind.apply(gateway, name, dict(spec))

    async def _end(self, kind: Kind, namespace: str, name: str, spec: Mapping[str, Any]) -> None:
        assert kind.end
        try:
            async with await self._tenants.gateway(namespace) as gateway:
                await kind.end(gateway, name, dict(spec))
        except NoTenant as error:
            # A namespace that goes loses its Secret first: no one is left to ask.
            log.warning("%s %s/%s stays in the platform: %s", kind.plural, namespace, name, error)
        except UserError as error:
            raise kopf.TemporaryError(str(error), delay=RETRY_S) from error


def _log_in(**_: Any) -> kopf.ConnectionInfo:
    """Logs in as the pod's account; called again when the token has been renewed."""
    return kopf.ConnectionInfo(
        server=server_url(),
        ca_path=str(ACCOUNT / "ca.crt"),
        token=(ACCOUNT / "token").read_text().strip(),
    )


def _put(patch: kopf.Patch, body: kopf.Body, status: dict[str, Any]) -> None:
    """Writes nothing where nothing changed: a write would be an event."""
    for name, value in status.items():
        if body.status.get(name) != value:
            patch.status[name] = value


def _is_temporary(error: UserError) -> bool:
    if isinstance(error, Rejected):
        return error.temporary
    return isinstance(error, Unreachable | ClusterRejected)


def _reason(error: UserError) -> str:
    """One word in CamelCase, as conditions have it."""
    if isinstance(error, Rejected) and error.reason:
        return "".join(word.capitalize() for word in error.reason.split("_"))
    return "InvalidSpec" if isinstance(error, UsageError) else type(error).__name__


def _sentence(error: UserError) -> str:
    return f"{error.cause}; {error.fix}" if error.fix else error.cause
