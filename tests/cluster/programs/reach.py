"""Tries addresses from a pod, and prints those that were reached.

reach.py ADDRESSES EXPECTED, both JSON lists of [name, host, port]. A policy is enforced a moment
after it or its pod was made, so where something differs from the expected, all is tried again.
"""

import json
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROUNDS, PAUSE_S, TIMEOUT_S = 5, 3.0, 3.0
Address = tuple[str, str, int]


def is_reached(address: Address) -> bool:
    try:
        socket.create_connection(address[1:], TIMEOUT_S).close()
    except OSError:
        return False
    return True


def reached(addresses: list[Address]) -> list[Address]:
    with ThreadPoolExecutor(len(addresses)) as threads:
        found = list(threads.map(is_reached, addresses))
    return [address for address, answered in zip(addresses, found, strict=True) if answered]


def main(addresses: list[Address], expected: list[Address]) -> None:
    for _ in range(ROUNDS):
        found = reached(addresses)
        if sorted(found) == sorted(expected):
            break
        time.sleep(PAUSE_S)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*([tuple(each) for each in json.loads(given)] for given in sys.argv[1:3]))
