"""Threads that read responses at once, in a process of its own: what they spoil stays so."""

import subprocess
import sys

# Each thread asks for every version of every response, as connections do; then classes that are
# not referred to are collected. Without the first line it fails.
READING = """
import podium_kit.stream.clients
import gc, sys, threading
from types import SimpleNamespace
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.api_message import ApiMessage

responses = [each for each in ApiMessage.__subclasses__() if not each.is_request()]
headers = [
    SimpleNamespace(request_api_key=each.API_KEY, request_api_version=version)
    for each in responses
    for version in range(each.max_version + 1)
]
assert headers
sys.setswitchinterval(1e-6)
together = threading.Barrier(8)

def read():
    for header in headers:
        together.wait()
        try:
            ResponseClassRegistry.get_response_class(header)
        except ReferenceError:
            pass

threads = [threading.Thread(target=read) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
gc.collect()
for header in headers:
    ResponseClassRegistry.get_response_class(header)
"""


def test_threads_that_read_at_once_can_read_again() -> None:
    run = subprocess.run(
        [sys.executable, "-c", READING],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
