from opentelemetry.metrics import get_meter
from opentelemetry.trace import get_tracer

from podium_kit.telemetry.configure import configure
from podium_kit.telemetry.episodes import (
    EndedEpisode,
    NotAnEpisodeId,
    episode_context,
    record_episode,
)
from podium_kit.telemetry.model_calls import ModelCall, model_call
from podium_kit.telemetry.propagation import client_interceptors
from podium_kit.telemetry.rpc import server_interceptors
from podium_kit.telemetry.settings import TelemetryMode, TelemetrySettings
from podium_kit.telemetry.spans import span
from podium_kit.telemetry.tool_calls import ToolCallSpan, tool_call

__all__ = [
    "EndedEpisode",
    "ModelCall",
    "NotAnEpisodeId",
    "TelemetryMode",
    "TelemetrySettings",
    "ToolCallSpan",
    "client_interceptors",
    "configure",
    "episode_context",
    "get_meter",
    "get_tracer",
    "model_call",
    "record_episode",
    "server_interceptors",
    "span",
    "tool_call",
]
