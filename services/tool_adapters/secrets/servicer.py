from typing import Any

from grpc.aio import ServicerContext

from podium.adapters.v1 import secret_service_pb2 as pb
from podium.adapters.v1 import secret_service_pb2_grpc as rpc
from podium_kit.rpc.identity import current_identity
from podium_kit.rpc.pages import decode_page_token, encode_page_token, page_size
from podium_kit.wire import timestamp_to_proto
from tool_adapters.secrets.errors import NotTheirOwn
from tool_adapters.secrets.models import NewSecret, Owner, SecretInfo
from tool_adapters.secrets.service import Secrets

Context = ServicerContext[Any, Any]
PAGE_SIZE, PAGE_SIZE_MAX = 50, 500


class SecretServicer(rpc.SecretServiceServicer):
    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def PutSecret(
        self, request: pb.PutSecretRequest, context: Context
    ) -> pb.PutSecretResponse:
        return pb.PutSecretResponse(secret=await self._put(_tenant(), request, ()))

    async def ListSecrets(
        self, request: pb.ListSecretsRequest, context: Context
    ) -> pb.ListSecretsResponse:
        secrets, token = await self._page(_tenant(), request)
        return pb.ListSecretsResponse(secrets=secrets, next_page_token=token)

    async def DeleteSecret(
        self, request: pb.DeleteSecretRequest, context: Context
    ) -> pb.DeleteSecretResponse:
        await self._secrets.delete(_tenant(), request.name)
        return pb.DeleteSecretResponse()

    async def PutUserSecret(
        self, request: pb.PutUserSecretRequest, context: Context
    ) -> pb.PutUserSecretResponse:
        stored = await self._put(_user(), request, tuple(request.hosts))
        return pb.PutUserSecretResponse(secret=stored)

    async def ListUserSecrets(
        self, request: pb.ListUserSecretsRequest, context: Context
    ) -> pb.ListUserSecretsResponse:
        secrets, token = await self._page(_user(), request)
        return pb.ListUserSecretsResponse(secrets=secrets, next_page_token=token)

    async def DeleteUserSecret(
        self, request: pb.DeleteUserSecretRequest, context: Context
    ) -> pb.DeleteUserSecretResponse:
        await self._secrets.delete(_user(), request.name)
        return pb.DeleteUserSecretResponse()

    async def _put(
        self,
        owner: Owner,
        request: pb.PutSecretRequest | pb.PutUserSecretRequest,
        hosts: tuple[str, ...],
    ) -> pb.Secret:
        by = current_identity().subject
        return _shown(
            await self._secrets.put(NewSecret(owner, request.name, request.value, hosts, by))
        )

    async def _page(
        self, owner: Owner, request: pb.ListSecretsRequest | pb.ListUserSecretsRequest
    ) -> tuple[list[pb.Secret], str]:
        size = page_size(request.page_size, PAGE_SIZE, PAGE_SIZE_MAX)
        after = decode_page_token(request.page_token).get("name", "")
        found = await self._secrets.list_of(owner, after, size + 1)
        token = encode_page_token({"name": found[size - 1].name}) if len(found) > size else ""
        return [_shown(each) for each in found[:size]], token


def _tenant() -> Owner:
    return Owner(current_identity().tenant)


def _user() -> Owner:
    identity = current_identity()
    if others := identity.people - {identity.subject}:
        raise NotTheirOwn(identity.subject, others)
    return Owner(identity.tenant, identity.subject)


def _shown(info: SecretInfo) -> pb.Secret:
    return pb.Secret(
        name=info.name,
        version=info.version,
        hosts=info.hosts,
        update_time=timestamp_to_proto(info.update_time),
        updated_by=info.updated_by,
    )
