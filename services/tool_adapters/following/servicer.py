from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium_kit.rpc.identity import current_identity
from podium_kit.rpc.pages import decode_page_token, encode_page_token, page_size
from tool_adapters.following.convert import id_from_proto, server_from_proto, server_to_proto
from tool_adapters.following.service import FollowedServers

FIRST_ID = "00000000-0000-0000-0000-000000000000"


class FollowingRpcs:
    def __init__(self, following: FollowedServers) -> None:
        self._following = following

    async def follow(self, request: pb.FollowMcpServerRequest) -> pb.FollowMcpServerResponse:
        server = server_from_proto(request.server, current_identity().tenant)
        kept = await self._following.follow(server)
        return pb.FollowMcpServerResponse(server=server_to_proto(kept))

    async def unfollow(self, request: pb.UnfollowMcpServerRequest) -> pb.UnfollowMcpServerResponse:
        await self._following.unfollow(id_from_proto(request.id))
        return pb.UnfollowMcpServerResponse()

    async def list_followed(
        self, request: pb.ListFollowedMcpServersRequest
    ) -> pb.ListFollowedMcpServersResponse:
        after = decode_page_token(request.page_token).get("id", FIRST_ID)
        size = page_size(request.page_size, default=100, maximum=1000)
        found = await self._following.list_for_caller(after, size + 1)
        more = len(found) > size
        return pb.ListFollowedMcpServersResponse(
            servers=[server_to_proto(server) for server in found[:size]],
            next_page_token=encode_page_token({"id": found[size - 1].id}) if more else "",
        )
