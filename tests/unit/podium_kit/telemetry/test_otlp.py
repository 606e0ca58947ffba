"""Processes that report to a collector over gRPC and over HTTP."""

import asyncio
import os
import sys

import pytest

from otlp_collector import CollectedSpan, OtlpCollector

# As Langfuse and others have it: a path of their own, and a key in a header.
PATH = "/api/public/otel"
PROGRAM = """
from podium_kit import telemetry
settings = telemetry.TelemetrySettings(mode="otlp", log_prompts=True, **{settings!r})
shutdown = telemetry.configure("registry", settings)
with telemetry.model_call("openai", "small") as call:
    call.content("what is love", "a verb")
    call.answered("small-2", 3, 2, "stop")
shutdown()
"""


async def report(**settings: object) -> None:
    """A process that makes one model call."""
    program = PROGRAM.format(settings=settings)
    headers = "authorization=Basic%20cGs6c2s="
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        env={**os.environ, "OTEL_EXPORTER_OTLP_HEADERS": headers},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 0 and b"rror" not in said, said.decode()


def only(collector: OtlpCollector) -> CollectedSpan:
    [span] = collector.spans()
    return span


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
async def test_spans_and_metrics_arrive_with_the_headers_that_authenticate(protocol: str) -> None:
    async with OtlpCollector(PATH) as collector:
        over_grpc = protocol == "grpc"
        endpoint = collector.grpc_endpoint if over_grpc else collector.http_endpoint
        await report(otlp_endpoint=endpoint, otlp_protocol=protocol)
    span = only(collector)
    assert (span.service, span.name, span.kind) == ("registry", "chat small", "client")
    assert span.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert "gen_ai.client.token.usage" in collector.metric_names()
    assert {each["authorization"] for each in collector.headers} == {"Basic cGs6c2s="}


async def test_metrics_are_left_out_for_those_who_take_only_traces() -> None:
    async with OtlpCollector(PATH) as collector:
        endpoint = collector.http_endpoint
        await report(otlp_endpoint=endpoint, otlp_protocol="http/protobuf", otlp_metrics=False)
    assert only(collector).attributes["gen_ai.usage.input_tokens"] == 3
    assert not collector.metric_names()
