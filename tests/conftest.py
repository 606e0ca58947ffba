"""Plugins for every test, and what must be set before anything is imported."""

import atexit
import gc
import os

import pytest
from hypothesis import HealthCheck, settings

# Before any test imports gRPC.
import podium_kit  # noqa: F401
from browser import machine
from sdks import typescript_client

# The models of tests are tiny: a second thread would spend its time on waiting for the first.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What is collected lives to the end: a collector that visits it again and again finds nothing.
gc.disable()

pytest_plugins = [
    "temporary_files",
    "warm_programs",
    "process_owner",
    "embedded_servers",
    "scheduling",
    "tensor_shapes",
]

# What a run cannot do it says at its end.
collect_ignore: list[str] = [] if machine.available() else machine.TESTS
if not typescript_client.available():
    collect_ignore += [
        "e2e/test_typescript_client.py",
        "integration/sdks/test_typescript_client.py",
    ]

# A busy machine is no finding.
settings.register_profile(
    "podium", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50
)
settings.register_profile("thorough", settings.get_profile("podium"), max_examples=200)
settings.load_profile("podium")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


# Extensions report what the interpreter cannot collect at its end. Not before: pytest collects
# twice while it ends.
atexit.register(gc.unfreeze)
