"""Plugins for every test, and what must be set before anything is imported."""

import os

# Otherwise gRPC restarts its threads in a forked child, which dies before it can exec.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

pytest_plugins = [
    "temporary_files",
    "process_owner",
    "embedded_servers",
    "scheduling",
    "tensor_shapes",
]
