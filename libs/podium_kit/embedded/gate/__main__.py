"""`python -m podium_kit.embedded.gate`: a server behind mutual TLS.

The gate takes its port where everybody is, and moves with the server into a network that no one
else can reach. There the server listens on a loopback of its own, in plaintext. Anyone who
connects to the gate must show a certificate of its authority; then bytes pass.
"""

import argparse
import asyncio
import signal
import socket
import ssl
import sys
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from podium_kit.embedded.gate.namespaces import FIX, enter_network
from podium_kit.embedded.gate.relay import Client
from podium_kit.embedded.ports import LOOPBACK, accepts_connections
from podium_kit.embedded.process import die_with_parent

POLL_INTERVAL_S = 0.02
HANDSHAKE_TIMEOUT_S = 10.0


def main() -> int:
    arguments = _arguments()
    # Read before the server runs: it has no business with them.
    context = _context(arguments)
    # asyncio sends at once, without Nagle's algorithm, where a socket names its protocol; else the
    # second part of an answer waits 40 ms for the acknowledgement of the first.
    with closing(socket.socket(proto=socket.IPPROTO_TCP)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, arguments.port))
        try:
            enter_network()
        except OSError as error:
            sys.stderr.write(
                f"gate: other users of this machine reach the server: {error}; {FIX}\n"
            )
        sys.stderr.flush()
        return asyncio.run(_serve(listener, context, arguments))


async def _serve(
    listener: socket.socket, context: ssl.SSLContext, arguments: argparse.Namespace
) -> int:
    server = await asyncio.create_subprocess_exec(
        *arguments.server,
        stdin=asyncio.subprocess.DEVNULL,
        preexec_fn=die_with_parent(signal.SIGKILL),
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _pass_on, server, number)
    # No one is let in before there is a server.
    while server.returncode is None and not accepts_connections(arguments.inner_port):  # noqa: ASYNC110
        await asyncio.sleep(POLL_INTERVAL_S)
    connecting: set[asyncio.Task[None]] = set()
    await loop.create_server(
        partial(Client, arguments.inner_port, connecting),
        sock=listener,
        ssl=context,
        ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
    )
    status = await server.wait()
    return status if status >= 0 else 128 - status


def _pass_on(server: asyncio.subprocess.Process, number: signal.Signals) -> None:
    # It may have ended a moment ago.
    with suppress(ProcessLookupError):
        server.send_signal(number)


def _context(arguments: argparse.Namespace) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=arguments.authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(arguments.certificate, arguments.private_key)
    # gRPC insists on it; who does not name a protocol gets none.
    context.set_alpn_protocols(["h2"])
    return context


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="podium_kit.embedded.gate")
    parser.add_argument("--port", type=int, required=True, help="where clients come")
    parser.add_argument("--inner-port", type=int, required=True, help="where the server listens")
    for name in ("certificate", "private-key", "authority"):
        parser.add_argument(f"--{name}", type=Path, required=True, help="PEM")
    parser.add_argument("server", nargs="+", help="its program and arguments")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
