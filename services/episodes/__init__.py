# Temporal's client imports gRPC, which has to find its settings.
import podium_kit  # noqa: F401
