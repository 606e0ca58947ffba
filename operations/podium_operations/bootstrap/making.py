"""The parts of the plan in their order; every part says what it made, if anything.

What the services wait for comes first, then what needs them to answer.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from http import HTTPStatus

import httpx
import tenacity

from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway, InvalidAuthority, Unreachable, verification
from podium_kit.client.rejections import Rejected
from podium_operations.bootstrap.api_keys import first_keys, record
from podium_operations.bootstrap.certificates import ensure_certificates, ensure_signing_keys
from podium_operations.bootstrap.cluster_objects import ClusterObjects
from podium_operations.bootstrap.contents import Documents, PlatformFiller, read_documents
from podium_operations.bootstrap.databases import DatabaseMaker
from podium_operations.bootstrap.settings import Contents, Plan, Settings
from podium_operations.bootstrap.temporal_namespace import ensure_namespace
from podium_operations.bootstrap.topics import ensure_topics
from podium_operations.bootstrap.waiting import saying

log = logging.getLogger(__name__)

READY_WAIT_S, READY_WAITS_MAX = 2.0, 600

Fill = Callable[[], Awaitable[list[str]]]


class GatewayNotReady(UserError):
    """The services do not become ready."""


async def retry_while_away(fill: Fill) -> list[str]:
    """Fills the platform once the services that it needs answer.

    Raises UserError for what no waiting helps against.
    """
    again = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(_is_temporary),
        wait=tenacity.wait_fixed(READY_WAIT_S),
        stop=tenacity.stop_after_attempt(READY_WAITS_MAX),
        before_sleep=saying("waiting for every service to answer"),
        reraise=True,
    )
    return await again(fill)


def _is_temporary(error: BaseException) -> bool:
    return isinstance(error, Unreachable) or (isinstance(error, Rejected) and error.temporary)


class Bootstrap:
    def __init__(self, settings: Settings, plan: Plan, objects: ClusterObjects) -> None:
        self._settings = settings
        self._plan = plan
        self._objects = objects
        self._made: list[str] = []

    async def run(self) -> list[str]:
        contents = self._plan.contents
        documents = read_documents(contents) if contents else None
        await self._surroundings()
        if contents and documents:
            around = list(self._made)
            await self._ready()
            await self._contents(contents, documents, around)
        return self._made

    async def _surroundings(self) -> None:
        plan, settings = self._plan, self._settings
        if plan.identity_secret:
            self._note(await ensure_signing_keys(self._objects, plan.identity_secret))
        if plan.certificates:
            self._note(await ensure_certificates(self._objects, plan.certificates))
        if plan.databases:
            mark = f"made by release {plan.release} of namespace {plan.namespace}"
            maker = DatabaseMaker(self._objects, mark)
            self._note(await maker.make(plan.databases))
        if plan.temporal_retention_hours:
            self._note(
                await ensure_namespace(
                    settings.temporal_target,
                    settings.temporal_namespace,
                    settings.temporal,
                    timedelta(hours=plan.temporal_retention_hours),
                )
            )
        if plan.topics and settings.kafka:
            self._note(await ensure_topics(settings.kafka, plan.topics))

    async def _contents(
        self, contents: Contents, documents: Documents, around: Sequence[str]
    ) -> None:
        where, settings = contents.gateway_database, self._settings
        gateway_of = partial(Gateway, settings.gateway_target, authority=settings.gateway_authority)
        database_url = (await self._objects.secret(where.secret) or {})[where.key]
        filler = PlatformFiller(contents, documents, self._objects)
        of_tenant = bool(documents.policies or documents.budgets)
        # What the gateway does not see, or does not count as administration.
        if around:
            await record(database_url, self._plan.release, list(around))
        async with first_keys(self._objects, contents, database_url) as keys:
            platform_key, made = await keys.platform()
            self._note(made)
            tenant_key = ""
            if contents.tenant:
                tenant_key, made = await keys.tenant(contents.tenant, required=of_tenant)
                self._note(made)
        async with gateway_of(platform_key) as gateway:
            self._note(await retry_while_away(partial(filler.fill_platform, gateway)))
            corpora = await retry_while_away(partial(filler.fill_library, gateway))
            self._note(corpora)
        if corpora:
            await record(database_url, self._plan.release, corpora)
        if of_tenant:
            async with gateway_of(tenant_key) as gateway:
                self._note(await retry_while_away(partial(filler.fill_tenant, gateway)))

    async def _ready(self) -> None:
        url, authority = self._settings.gateway_target, self._settings.gateway_authority

        async def ready() -> bool:
            try:
                verify = verification(authority)
                async with httpx.AsyncClient(trust_env=False, timeout=10, verify=verify) as client:
                    return (await client.get(f"{url}/readyz")).status_code == HTTPStatus.OK
            except (httpx.TransportError, InvalidAuthority):
                # The kubelet mounts a certificate that this Job made after a minute.
                return False

        patient = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_result(lambda is_ready: not is_ready),
            wait=tenacity.wait_fixed(READY_WAIT_S),
            stop=tenacity.stop_after_attempt(READY_WAITS_MAX),
            before_sleep=saying("waiting for the gateway to be ready"),
        )
        try:
            await patient(ready)
        except tenacity.RetryError as error:
            raise GatewayNotReady(
                f"the gateway at {url} is not ready after {READY_WAIT_S * READY_WAITS_MAX:.0f} s",
                "see `kubectl get pods` and the log of the first pod that is not ready",
            ) from error

    def _note(self, made: Sequence[str]) -> None:
        for each in made:
            log.info("made: %s", each)
        self._made += made
