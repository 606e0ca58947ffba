"""/v1/views: filters of the list of episodes, saved by name for oneself or for the tenant."""

from datetime import datetime
from uuid import UUID, uuid4

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from gateway.errors import TooManyViews, ViewNotFound
from gateway.request_model import RequestModel
from gateway.views.models import SavedView
from gateway.views.store import PostgresViewStore
from podium_kit.rpc.identity import Scope, current_identity

VIEWS_MAX = 50


class SaveViewRequest(RequestModel):
    """Asks to save a filter."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=80)
    query: str = Field(
        max_length=2000, description="search part of the list's address, like range=day&sort=cost"
    )
    shared: bool = Field(False, description="whether everybody in the tenant sees it")


class SavedViewResource(BaseModel):
    """A saved filter."""

    id: UUID
    name: str
    query: str
    shared: bool
    saved_by: str
    deletable: bool = Field(description="by the caller: its own, and shared ones by admins")
    create_time: datetime

    @classmethod
    def of(cls, view: SavedView) -> "SavedViewResource":
        caller = current_identity()
        own = view.subject == caller.subject
        return cls(
            id=view.id,
            name=view.name,
            query=view.query,
            shared=view.shared,
            saved_by=view.subject,
            deletable=own or caller.may(Scope.TENANT_ADMIN),
            create_time=view.create_time,
        )


class ListViewsResponse(BaseModel):
    """The caller's own filters, then those that others shared: 500 at most."""

    views: list[SavedViewResource]


def views_router(store: PostgresViewStore) -> APIRouter:
    router = APIRouter(prefix="/v1/views", tags=["Views"])

    @router.get("", operation_id="ListViews")
    async def list_views() -> ListViewsResponse:
        caller = current_identity()
        found = await store.list(caller.tenant, caller.subject)
        return ListViewsResponse(views=[SavedViewResource.of(view) for view in found])

    @router.post("", operation_id="SaveView")
    async def save(body: SaveViewRequest) -> SavedViewResource:
        """Saves a filter; each person may have 50."""
        caller = current_identity()
        values = {**body.model_dump(), "id": uuid4(), "subject": caller.subject}
        view = await store.insert(caller.tenant, values, VIEWS_MAX)
        if view is None:
            raise TooManyViews(VIEWS_MAX)
        return SavedViewResource.of(view)

    @router.delete("/{view_id}", operation_id="DeleteView", status_code=204)
    async def delete(view_id: UUID) -> None:
        caller = current_identity()
        admin = caller.may(Scope.TENANT_ADMIN)
        if not await store.delete(caller.tenant, view_id, caller.subject, admin=admin):
            raise ViewNotFound(view_id)

    return router
