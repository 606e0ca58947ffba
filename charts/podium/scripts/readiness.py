"""Asks the gateway's /readyz and every service's gRPC health; exit status 1 names who is unwell.

Arguments: the URL of /readyz, then host:port of each plaintext health port.
"""

import sys
import urllib.request

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

TIMEOUT_S = 20


def check_gateway(url: str) -> None:
    """Raises when the gateway is not ready."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_S):  # noqa: S310  an address of the chart's
        return


def check_service(target: str) -> None:
    """Raises when the service does not say SERVING."""
    with grpc.insecure_channel(target) as channel:
        request = health_pb2.HealthCheckRequest(service="readiness")
        reply = health_pb2_grpc.HealthStub(channel).Check(
            request, timeout=TIMEOUT_S, wait_for_ready=True
        )
    if reply.status != health_pb2.HealthCheckResponse.SERVING:
        raise OSError(health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status))


def main() -> int:
    """Checks every address of the arguments."""
    failures = 0
    for address in sys.argv[1:]:
        check = check_gateway if address.startswith("http") else check_service
        try:
            check(address)
        except (OSError, grpc.RpcError) as error:
            failures += 1
            sys.stdout.write(f"{address} is not ready: {error}\n")
        else:
            sys.stdout.write(f"{address} is ready\n")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
