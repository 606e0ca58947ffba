import os

# Spans of the library hold exceptions, and so what users wrote; it looks here when imported.
os.environ["OTEL_INSTRUMENTATION_A2A_SDK_ENABLED"] = "false"
