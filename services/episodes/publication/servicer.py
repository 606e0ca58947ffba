from typing import Any

import grpc

from episodes.errors import DeadLetterNotFound
from episodes.publication.store_dead_letters import NEWEST, DeadLetter, DeadLetterStore
from podium.episodes.v1 import dead_letter_service_pb2 as pb
from podium.episodes.v1.dead_letter_service_pb2_grpc import DeadLetterServiceServicer
from podium_kit.rpc.identity import Scope, current_identity, require_scope
from podium_kit.rpc.pages import decode_page_token, encode_page_token, page_size, token_number
from podium_kit.wire import timestamp_to_proto

Context = grpc.aio.ServicerContext[Any, Any]


class DeadLettersServicer(DeadLetterServiceServicer):
    def __init__(self, store: DeadLetterStore) -> None:
        self._store = store

    async def ListDeadLetters(
        self, request: pb.ListDeadLettersRequest, context: Context
    ) -> pb.ListDeadLettersResponse:
        size = page_size(request.page_size, default=50, maximum=500)
        before = token_number(decode_page_token(request.page_token), "before", NEWEST)
        found = await self._store.page(_tenant(request.all_tenants), before, size + 1)
        page = found[:size]
        token = encode_page_token({"before": str(page[-1].row_id)}) if len(found) > size else ""
        return pb.ListDeadLettersResponse(
            dead_letters=[_to_proto(letter) for letter in page], next_page_token=token
        )

    async def RedriveDeadLetters(
        self, request: pb.RedriveDeadLettersRequest, context: Context
    ) -> pb.RedriveDeadLettersResponse:
        tenant, record_ids = _tenant(request.all_tenants), list(request.record_ids)
        if unknown := set(record_ids) - await self._store.known(tenant, record_ids):
            raise DeadLetterNotFound(min(unknown))
        return pb.RedriveDeadLettersResponse(count=await self._store.redrive(tenant, record_ids))


def _tenant(all_tenants: bool) -> str | None:
    if not all_tenants:
        return current_identity().tenant
    require_scope(Scope.PLATFORM_ADMIN)
    return None


def _to_proto(letter: DeadLetter) -> pb.DeadLetter:
    return pb.DeadLetter(
        record_id=letter.record_id,
        tenant=letter.tenant,
        kind=letter.kind,
        group_id=letter.group_id,
        episode_id=letter.episode_id,
        reason=letter.reason,
        size_bytes=letter.size_bytes,
        create_time=timestamp_to_proto(letter.create_time),
    )
