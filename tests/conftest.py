"""Plugins for every test, and what must be set before anything is imported."""

import os
from tempfile import mkdtemp

# Otherwise gRPC restarts its threads in a forked child, which dies before it can exec.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
# The usual folder belongs to every pytest of this user, and each closes it to other accounts,
# such as the one PostgreSQL runs as.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", mkdtemp(prefix="podium-tests-"))

pytest_plugins = ["process_owner", "embedded_servers", "scheduling", "tensor_shapes"]
