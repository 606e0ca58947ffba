"""Libraries that services, command and training share."""

import os

# gRPC reads these when it is imported. Its handlers of forks are for children that keep using
# gRPC, and crash some that only execute a program.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
# Its EventEngine hands every event to one more thread: a call by asyncio takes 10 to 20 % more
# processor time on both sides, and a sixth longer alone, than with the poller that Python had
# before 1.80.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")
