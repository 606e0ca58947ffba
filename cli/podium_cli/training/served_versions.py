"""Policy versions as the platform sees them."""

import tenacity

from podium.orchestrator.v1 import model_version_service_pb2 as pb
from podium_cli.training.version_view import is_tried
from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway

WAIT_S = 120.0


async def list_versions(gateway: Gateway) -> pb.ListModelVersionsResponse:
    """All versions in the store. Raises Rejected, Unreachable."""
    return await gateway.all("/v1/model-versions", pb.ListModelVersionsResponse)


async def tried_versions(gateway: Gateway) -> pb.ListModelVersionsResponse:
    """All of them, once no version is left that no engine has tried. Raises UserError."""
    again = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_result(lambda found: not _all_tried(found)),
        wait=tenacity.wait_fixed(1),
        stop=tenacity.stop_after_delay(WAIT_S),
    )
    try:
        return await again(list_versions, gateway)
    except tenacity.RetryError as error:
        cause = f"after {WAIT_S:.0f} s there is none, or one that no engine has tried"
        raise UserError(cause, "see `podium train versions` and `podium status`") from error


def _all_tried(found: pb.ListModelVersionsResponse) -> bool:
    return bool(found.versions) and all(map(is_tried, found.versions))
