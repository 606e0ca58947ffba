import time

from cluster.finding import require
from cluster.release import Release
from cluster.tasks import first_task

SERVER, PORT = "podium-cost-ledger", 50054
SECRET = f"{SERVER}-tls"
# The kubelet brings a changed Secret to its pods within two minutes.
TAKEN_UP_S = 240.0
# Says the digest of the certificate that is served; "rejected" where the server ends the call.
PEER = """
import hashlib, ssl, sys
host, port, shows = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "shows"
import socket
context = ssl.create_default_context(cafile="/etc/podium/tls/ca.crt")
context.set_alpn_protocols(["h2"])
if shows:
    context.load_cert_chain("/etc/podium/tls/tls.crt", "/etc/podium/tls/tls.key")
try:
    with socket.create_connection((host, port), 10) as plain:
        with context.wrap_socket(plain, server_hostname=host) as served:
            served.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0")
            answered = served.recv(9)
            print(hashlib.sha256(served.getpeercert(True)).hexdigest() if answered else "rejected")
except (ssl.SSLError, ConnectionError):
    print("rejected")
"""


def renewed(release: Release) -> str:
    """The CronJob's Job makes what is missing, and the service shows it; a task is answered."""
    require(_peer(release, "none") == "rejected", "a caller without a certificate was let in")
    before, pods = _peer(release, "shows"), _pods(release)
    require(before != "rejected", "the gateway's certificate was rejected")
    release.kubectl("delete", "secret", SECRET)
    release.kubectl("create", "job", "renewed-now", "--from=cronjob/podium-certificates")
    release.kubectl("wait", "--for=condition=Complete", "job/renewed-now", "--timeout=180s")
    made = release.kubectl("logs", "job/renewed-now").strip()
    require(f"Secret {SECRET}" in made and len(made.splitlines()) == 1, made)
    began = time.monotonic()
    while _peer(release, "shows") == before:
        require(time.monotonic() - began < TAKEN_UP_S, "the service shows the old certificate")
        time.sleep(5)
    taken_s = time.monotonic() - began
    first_task(release)
    require(_pods(release) == pods, "pods were replaced")
    return f"{SERVER} showed the new one {taken_s:.0f} s later; no pod was replaced"


def _peer(release: Release, shows: str) -> str:
    host = f"{SERVER}.{release.namespace}.svc.cluster.local"
    program = ("python", "-c", PEER, host, str(PORT), shows)
    return release.kubectl("exec", "deploy/podium-gateway", "--", *program).strip()


def _pods(release: Release) -> set[str]:
    return {pod["metadata"]["uid"] for pod in release.pods()}
