# Written by `make sdk` from podium_client/_async; do not edit.
"""Trained versions of the orchestrator, and records that trainers could not use."""

from collections.abc import Sequence

from podium_client._sync.pages import Pages
from podium_client._sync.transport import Transport, required
from podium_client.models import (
    DeadLetter,
    GetModelVersionResponse,
    ListDeadLettersResponse,
    ListModelVersionsResponse,
    ModelVersion,
    PromoteModelVersionResponse,
    RedriveDeadLettersRequest,
    RedriveDeadLettersResponse,
    RollBackModelVersionResponse,
)
from podium_client.wire import path

VERSION = "/v1/model-versions/{name}"


class ModelVersions:
    """Platform admins only."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, page_size: int = 0) -> Pages[ModelVersion]:
        """Lists versions by run and number."""
        return self._transport.pages(
            "/v1/model-versions",
            ListModelVersionsResponse,
            lambda page: (page.versions, page.next_page_token),
            {"page_size": page_size},
        )

    def get(self, name: str) -> ModelVersion:
        """One version."""
        address = path(VERSION, name=name)
        reply = self._transport.call("GET", address, GetModelVersionResponse)
        return required(reply.version)

    def promote(self, name: str) -> PromoteModelVersionResponse:
        """Gives it to users, from the next call on."""
        address = path(VERSION + "/promote", name=name)
        return self._transport.call("POST", address, PromoteModelVersionResponse, body={})

    def roll_back(self, name: str) -> ModelVersion:
        """Gives users the version before it; `name` must be the promoted one."""
        address = path(VERSION + "/roll-back", name=name)
        reply = self._transport.call("POST", address, RollBackModelVersionResponse, body={})
        return required(reply.version)


class DeadLetters:
    """Records that are on no topic."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, all_tenants: bool = False, page_size: int = 0) -> Pages[DeadLetter]:
        """Newest first."""
        return self._transport.pages(
            "/v1/dead-letters",
            ListDeadLettersResponse,
            lambda page: (page.dead_letters, page.next_page_token),
            {"all_tenants": all_tenants, "page_size": page_size},
        )

    def redrive(self, record_ids: Sequence[str] = (), *, all_tenants: bool = False) -> int:
        """Publishes them again, all where none is named; how many."""
        body = RedriveDeadLettersRequest(record_ids=[*record_ids], all_tenants=all_tenants)
        reply = self._transport.call(
            "POST", "/v1/dead-letters/redrive", RedriveDeadLettersResponse, body=body
        )
        return reply.count
