import json
from collections.abc import Callable
from typing import Any

import grpc

from podium_kit import telemetry
from podium_kit.rpc.identity import Identity, current_identity, current_token
from podium_kit.rpc.renewing_channel import RenewingChannel
from podium_kit.rpc.server import MESSAGE_BYTES_MAX
from podium_kit.rpc.settings import TlsFiles
from podium_kit.rpc.tls import KeyMaterial, RenewedFiles
from podium_kit.rpc.tokens import TokenSigner

DEFAULT_DEADLINE_S = 30.0
SERVICE_CONFIG = {
    "loadBalancingConfig": [{"round_robin": {}}],
    # The retry budget of a server (gRFC A6): a failure takes a token, a success gives a tenth of
    # one back, and nothing is retried while half of the tokens are gone. A pod that restarts costs
    # 500 retries at most, and one that fails for longer no more than a tenth of what succeeds.
    "retryThrottling": {"maxTokens": 1000, "tokenRatio": 0.1},
    "methodConfig": [
        {
            "name": [{}],
            # Safe because every write carries a key made by its caller. The attempts last longer
            # than the longest pause before a restarted server is connected to.
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                # A call that meets a server just as it closes its door is CANCELLED by it; what
                # the caller itself cancels is never tried again.
                "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
            },
        }
    ],
}
CHANNEL_OPTIONS = (
    ("grpc.service_config", json.dumps(SERVICE_CONFIG)),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A restarted server is found again within a second, not after gRPC's default minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.dns_min_time_between_resolutions_ms", 5_000),
)


def open_channel(
    target: str,
    signer: TokenSigner | None = None,
    identity: Identity | None = None,
    tls: TlsFiles | None = None,
    deadline_s: float | None = None,
) -> grpc.aio.Channel:
    """A channel that calls as `identity`, or else as the current one.

    A call that sets no deadline gets `deadline_s`, or else DEFAULT_DEADLINE_S.
    With a signer it signs a token of its own; without one it forwards the token
    of the request being served. With `tls` its certificate follows the files. Raises TlsUnusable.
    """
    outgoing = _UnaryCall(signer, identity, deadline_s), _StreamCall(signer, identity)
    interceptors = [*telemetry.client_interceptors(), *outgoing]
    if tls is None:
        return grpc.aio.insecure_channel(target, CHANNEL_OPTIONS, interceptors=interceptors)

    def connect(material: KeyMaterial) -> grpc.aio.Channel:
        credentials = material.channel_credentials()
        return grpc.aio.secure_channel(
            target, credentials, CHANNEL_OPTIONS, interceptors=interceptors
        )

    return RenewingChannel(RenewedFiles(tls), connect)


class _OutgoingCall:
    def __init__(
        self,
        signer: TokenSigner | None,
        identity: Identity | None,
        deadline_s: float | None = None,
    ) -> None:
        self._signer = signer
        self._identity = identity
        self._deadline_s = deadline_s

    # The details are a named tuple; the stubs do not say so.
    def _complete(self, details: Any) -> Any:
        metadata = grpc.aio.Metadata(*(details.metadata or ()))
        if token := self._token():
            metadata.add("authorization", f"Bearer {token}")
        return details._replace(metadata=metadata, timeout=self._deadline(details))

    def _token(self) -> str | None:
        if self._signer is None:
            return current_token()
        return self._signer.sign(self._identity or current_identity())

    def _deadline(self, details: Any) -> Any:
        if details.timeout is not None:
            return details.timeout
        return DEFAULT_DEADLINE_S if self._deadline_s is None else self._deadline_s


class _UnaryCall(_OutgoingCall, grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[type-arg]
    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Any],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        return await continuation(self._complete(client_call_details), request)


class _StreamCall(_OutgoingCall, grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[type-arg]
    async def intercept_unary_stream(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Any],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        return await continuation(self._complete(client_call_details), request)

    def _deadline(self, details: Any) -> Any:
        # A watch lasts as long as what it watches.
        return details.timeout
