from enum import StrEnum
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class TelemetryMode(StrEnum):
    """Destinations of traces. Logs always go to stderr."""

    OFF = "off"
    FILE = "file"
    OTLP = "otlp"


class TelemetrySettings(BaseModel):
    """Part of every service's settings; safe to leave at its defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: TelemetryMode = Field(TelemetryMode.OFF, description="where traces go")
    folder: Path | None = Field(None, description="mode file: holds <service>.jsonl")
    file_bytes_max: int = Field(64 * 1024 * 1024, gt=0, description="a fuller file is rotated once")
    otlp_endpoint: str | None = Field(
        None, description="mode otlp: http(s)://host:port; over HTTP also with a path"
    )
    otlp_protocol: Literal["grpc", "http/protobuf"] = Field("grpc", description="mode otlp: how")
    otlp_metrics: bool = Field(True, description="mode otlp: metrics, too; some take only traces")
    metrics_host: str = Field("127.0.0.1", description="address of the Prometheus page")
    metrics_port: int | None = Field(None, ge=0, le=65535, description="Prometheus page; unset: no")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="least severe level that is logged"
    )
    log_prompts: bool = Field(False, description="put prompts and answers on model spans")

    @model_validator(mode="after")
    def _destination_is_named(self) -> Self:
        if self.mode is TelemetryMode.FILE and self.folder is None:
            raise ValueError("telemetry mode file needs a folder")
        if self.mode is TelemetryMode.OTLP and not self.otlp_endpoint:
            raise ValueError("telemetry mode otlp needs otlp_endpoint")
        return self
