"""Packages charts and pushes them to a registry: push_charts.py REGISTRY CHART...

Credentials are what `docker login` or `helm registry login` left. PLAIN_HTTP=1 speaks without TLS.
SIGN_AS is the name of a PGP key in the keyring KEYRING, which charts are signed with: `helm pull
--verify` checks them.
"""

import os
import sys
from tempfile import TemporaryDirectory

import helm_python


def main(registry: str, *charts: str) -> None:
    with TemporaryDirectory() as folder:
        for chart in charts:
            archive = helm_python.package(chart, destination=folder)
            if signer := os.environ.get("SIGN_AS"):
                helm_python.sign(archive, key=signer, keyring=os.environ["KEYRING"])
            target = f"oci://{registry}/charts"
            helm_python.push(archive, target, plain_http=bool(os.environ.get("PLAIN_HTTP")))
            print(f"pushed {chart} to {target}")


if __name__ == "__main__":
    main(*sys.argv[1:])
