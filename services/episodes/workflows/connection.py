"""The connection to Temporal, opened anew for a renewed certificate and after an outage.

Temporal's client reads its files once; cert-manager renews them long before the old certificate
ends. It also connects again by itself, but an attempt to reach a pod that is gone takes the kernel
over two minutes: a Service's address stays translated to that pod for as long as SYN is repeated.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import tenacity
from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue, TaskQueueStats
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, TLSConfig

from episodes.workflows.codec import data_converter
from episodes.workflows.settings import TemporalSettings
from podium_kit.rpc.errors import Unavailable

log = logging.getLogger(__name__)

RETRY_INTERVAL_S = 1.0
ATTEMPTS_MAX = 60


class TemporalUnreachable(Unavailable):
    def __init__(self, target: str, cause: Exception) -> None:
        super().__init__(f"Temporal at {target} does not answer: {cause}; {_fix(str(cause))}")


def _fix(cause: str) -> str:
    """Returns the fix for an error of the client, by its text: it has no types for them."""
    if "InvalidCertificate" in cause:
        return "its certificate is not accepted: correct TEMPORAL__AUTHORITY or _SERVER_NAME"
    if "error after connection" in cause:
        return (
            "it took the connection and ended it: correct TEMPORAL__TLS, TEMPORAL__CERTIFICATE "
            "and TEMPORAL__PRIVATE_KEY"
        )
    return "start it, or correct TEMPORAL_TARGET"


async def connect_temporal(
    target: str,
    namespace: str,
    settings: TemporalSettings | None = None,
    attempts_max: int = ATTEMPTS_MAX,
) -> Client:
    """Returns a client once the frontend answers.

    Raises TemporalUnreachable, by default in a minute, and FailedPrecondition for a file of
    payload keys without any.
    """
    settings = settings or TemporalSettings()
    security = connection_security(settings)
    converter = data_converter(settings.payload_keys_file)
    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(RuntimeError),
        stop=tenacity.stop_after_attempt(attempts_max),
        wait=tenacity.wait_fixed(RETRY_INTERVAL_S),
        before_sleep=lambda _: log.info("Temporal at %s does not answer yet", target),
        reraise=True,
    )
    try:
        return await retrying(
            Client.connect, target, namespace=namespace, data_converter=converter, **security
        )
    except RuntimeError as error:
        raise TemporalUnreachable(target, error) from error


async def check_temporal(client: Client) -> None:
    if not await client.service_client.check_health():
        raise Unavailable("Temporal's frontend does not serve")


def connection_security(settings: TemporalSettings) -> dict[str, Any]:
    if not settings.tls:
        # Named, because the client turns TLS on by itself where there is a key.
        return {"tls": False}
    files = {
        "server_root_ca_cert": settings.authority,
        "client_cert": settings.certificate,
        "client_private_key": settings.private_key,
    }
    pem: dict[str, Any] = {
        name: path.read_bytes() for name, path in files.items() if path is not None
    }
    key = settings.api_key
    return {
        "tls": TLSConfig(domain=settings.server_name, **pem),
        "api_key": key.get_secret_value() if key else None,
    }


RENEWAL_INTERVAL_S = 10.0
ANSWER_TIMEOUT_S = 5.0


class TemporalConnection:
    def __init__(
        self, target: str, namespace: str, settings: TemporalSettings, client: Client
    ) -> None:
        self.client = client
        self._target = target
        self._namespace = namespace
        self._settings = settings
        self._security = connection_security(settings)
        self._followers: list[Callable[[Client], None]] = []

    @classmethod
    async def open(
        cls, target: str, namespace: str, settings: TemporalSettings
    ) -> "TemporalConnection":
        client = await connect_temporal(target, namespace, settings)
        return cls(target, namespace, settings, client)

    def follow(self, use: Callable[[Client], None]) -> None:
        """Passes every later client to an object that keeps its own, such as a worker."""
        self._followers.append(use)

    async def renew(self) -> None:
        """Reconnects where the files have changed or the frontend does not answer; call it every
        RENEWAL_INTERVAL_S.

        Raises OSError and TemporalUnreachable, with the old client in place: the renewal is half
        written, or the frontend is away.
        """
        security = connection_security(self._settings)
        renewed = security != self._security
        if not renewed and await self._answers():
            return
        self.client, self._security = await self._connected(), security
        for use in self._followers:
            use(self.client)
        if renewed:
            log.info("certificate %s was renewed", self._settings.certificate)
        else:
            log.info("connected to Temporal at %s again", self._target)

    async def _answers(self) -> bool:
        try:
            await asyncio.wait_for(check_temporal(self.client), ANSWER_TIMEOUT_S)
        except (RPCError, Unavailable, TimeoutError):
            return False
        return True

    async def _connected(self) -> Client:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await connect_temporal(
                    self._target, self._namespace, self._settings, attempts_max=1
                )
        except TimeoutError:
            late = TimeoutError(f"no connection within {ANSWER_TIMEOUT_S:g} s")
            raise TemporalUnreachable(self._target, late) from None


TYPES = (
    TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
)


async def backlog_age_s(temporal: TemporalConnection, task_queue: str) -> float:
    """Returns the seconds that the oldest task has waited; 0 without one. Raises RPCError."""
    found = await _statistics(temporal, task_queue)
    return max(_seconds(each.approximate_backlog_age) for each in found)


async def waiting_tasks(temporal: TemporalConnection, task_queue: str) -> float:
    """Returns how many tasks wait; 0 while Temporal is away, since no worker could take any."""
    try:
        found = await _statistics(temporal, task_queue)
    except RPCError:
        return 0.0
    return float(sum(each.approximate_backlog_count for each in found))


async def _statistics(temporal: TemporalConnection, task_queue: str) -> list[TaskQueueStats]:
    client = temporal.client
    found = []
    for kind in TYPES:
        request = DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=kind,
            report_stats=True,
        )
        reply = await client.workflow_service.describe_task_queue(
            request, timeout=timedelta(seconds=ANSWER_TIMEOUT_S)
        )
        found.append(reply.stats)
    return found


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9
