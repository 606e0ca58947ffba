import asyncio
import logging
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    RegisterNamespaceRequest,
    UpdateNamespaceRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from episodes.workflows.connection import RETRY_INTERVAL_S, connect_temporal
from episodes.workflows.search_attributes import SEARCH_ATTRIBUTES
from episodes.workflows.settings import TemporalSettings
from podium_kit.client.errors import UserError

log = logging.getLogger(__name__)

ATTEMPTS_MAX = 300
# What it means to have too little right, or a server that keeps namespaces elsewhere.
NOT_OURS = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED)


class NamespaceRejected(UserError):
    """Temporal does not do what it is asked."""


async def ensure_namespace(
    target: str, namespace: str, settings: TemporalSettings, retention: timedelta
) -> list[str]:
    """Makes the namespace with its search attributes, or lengthens its retention.

    Histories are never ended earlier.
    """
    client = await connect_temporal(target, namespace, settings, ATTEMPTS_MAX)
    try:
        made = await _ensured(client, namespace, retention)
        return [*made, *await _with_search_attributes(client, namespace)]
    except RPCError as error:
        fix = "see Temporal's log, and endpoints.temporal in the values"
        if error.status in NOT_OURS:
            fix = "make it yourself, and set bootstrap.temporal.enabled: false"
        raise NamespaceRejected(
            f"Temporal's namespace {namespace} cannot be made: {error.message}", fix
        ) from error


async def _ensured(client: Client, namespace: str, retention: timedelta) -> list[str]:
    service = client.workflow_service
    wanted = Duration()
    wanted.FromTimedelta(retention)
    try:
        found = await service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        await service.register_namespace(
            RegisterNamespaceRequest(
                namespace=namespace,
                description="Podium",
                workflow_execution_retention_period=wanted,
            )
        )
        return [f"Temporal namespace {namespace}, which keeps histories for {_hours(retention)}"]
    kept = found.config.workflow_execution_retention_ttl.ToTimedelta()
    if kept >= retention:
        if kept > retention:
            log.info(
                "Temporal's namespace %s keeps histories for %s already", namespace, _hours(kept)
            )
        return []
    await service.update_namespace(
        UpdateNamespaceRequest(
            namespace=namespace,
            config=NamespaceConfig(workflow_execution_retention_ttl=wanted),
        )
    )
    change = f"{_hours(retention)} instead of {_hours(kept)}"
    return [f"Temporal namespace {namespace} keeps histories for {change}"]


async def _with_search_attributes(client: Client, namespace: str) -> list[str]:
    """Registers what is missing; a namespace that was just made takes some seconds to exist."""
    service = client.operator_service
    lists = ListSearchAttributesRequest(namespace=namespace)
    attempts = 0
    while True:
        attempts += 1
        try:
            known = (await service.list_search_attributes(lists)).custom_attributes
            missing = sorted(SEARCH_ATTRIBUTES.keys() - known.keys())
            if not missing:
                return []
            await service.add_search_attributes(
                AddSearchAttributesRequest(
                    search_attributes=dict.fromkeys(
                        missing, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
                    ),
                    namespace=namespace,
                )
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and attempts < ATTEMPTS_MAX:
                await asyncio.sleep(RETRY_INTERVAL_S)
                continue
            raise
        return [f"Temporal search attributes {', '.join(missing)}"]


def _hours(length: timedelta) -> str:
    return f"{length // timedelta(hours=1)} hours"
