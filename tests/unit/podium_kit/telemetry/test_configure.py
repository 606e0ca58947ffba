"""A process that is set up for logs, traces and metrics."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from podium_kit.telemetry import TelemetryMode, TelemetrySettings
from servers.otlp_collector import CollectedSpan, OtlpCollector

EPISODE_ID = "0198c0de-0000-7000-8000-000000000001"


def run_process(program: str) -> subprocess.CompletedProcess[str]:
    # OpenTelemetry's providers can be set once per process, so each test has its own.
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_file_mode_writes_one_json_object_per_span(tmp_path: Path) -> None:
    run_process(f"""
from podium_kit import telemetry
settings = telemetry.TelemetrySettings(mode="file", folder={str(tmp_path)!r})
shutdown = telemetry.configure("registry", settings)
with telemetry.episode_context({EPISODE_ID!r}), telemetry.span("turn", {{"podium.turn": 1}}):
    pass
shutdown()
""")
    (line,) = json_lines((tmp_path / "registry.jsonl").read_text())
    assert line["trace_id"] == EPISODE_ID.replace("-", "")
    assert line["service"] == "registry"
    assert line["attributes"] == {"podium.turn": 1}


def test_a_full_span_file_is_kept_once_under_another_name(tmp_path: Path) -> None:
    run_process(f"""
from podium_kit import telemetry
settings = telemetry.TelemetrySettings(mode="file", folder={str(tmp_path)!r}, file_bytes_max=1)
from opentelemetry import trace
shutdown = telemetry.configure("registry", settings)
for name in ("first", "second", "third"):
    with telemetry.span(name):
        pass
    trace.get_tracer_provider().force_flush()
shutdown()
""")
    names = {
        path.name: [line["name"] for line in json_lines(path.read_text())]
        for path in tmp_path.iterdir()
    }
    assert names == {"registry.jsonl": ["third"], "registry.jsonl.1": ["second"]}


def test_a_log_line_is_json_and_names_the_trace_it_belongs_to(tmp_path: Path) -> None:
    done = run_process(f"""
import logging
from podium_kit import telemetry
settings = telemetry.TelemetrySettings(mode="file", folder={str(tmp_path)!r})
telemetry.configure("registry", settings)
with telemetry.episode_context({EPISODE_ID!r}):
    logging.getLogger("tools").info("registered %s", "weather")
""")
    (line,) = json_lines(done.stderr)
    assert line["message"] == "registered weather"
    assert line["service"] == "registry"
    assert line["trace_id"] == EPISODE_ID.replace("-", "")


def test_a_stack_trace_is_one_field_of_one_line() -> None:
    done = run_process("""
import logging
from podium_kit import telemetry
telemetry.configure("registry", telemetry.TelemetrySettings())
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("tools").exception("broken")
""")
    (line,) = json_lines(done.stderr)
    assert "ZeroDivisionError" in line["exception"]


def test_off_installs_nothing_on_servers_and_channels() -> None:
    done = run_process("""
from podium_kit import telemetry
telemetry.configure("registry", telemetry.TelemetrySettings())()
print(telemetry.server_interceptors() + telemetry.client_interceptors())
""")
    assert done.stdout == "[]\n"


def test_the_metrics_page_shows_what_was_counted() -> None:
    done = run_process("""
import socket, urllib.request
from podium_kit import telemetry
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
shutdown = telemetry.configure("registry", telemetry.TelemetrySettings(metrics_port=port))
with telemetry.model_call("openai", "small") as call:
    call.answered("small", 3, 2, "stop")
print(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode())
shutdown()
""")
    assert re.search(
        r'gen_ai_client_token_usage_sum\{.*gen_ai_token_type="input".*\} 3.0', done.stdout
    )


def test_calls_are_measured_in_seconds_while_traces_are_off() -> None:
    done = run_process("""
import asyncio, socket, urllib.request
from podium_kit import telemetry
from unit.podium_kit.telemetry.test_spans import call, echo_channel
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
shutdown = telemetry.configure("registry", telemetry.TelemetrySettings(metrics_port=port))
async def measure():
    async with echo_channel() as channel:
        await call(channel, "Answer")
asyncio.run(measure())
print(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode())
shutdown()
""")
    lines = [
        line
        for line in done.stdout.splitlines()
        if line.startswith("rpc_server_call_duration_seconds") and 'rpc_method="Answer"' in line
    ]
    assert any("_count{" in line and line.endswith(" 1.0") for line in lines)
    bounds = {found for line in lines for found in re.findall(r'le="([^"]+)"', line)}
    assert {"0.005", "0.1", "10.0", "640.0", "+Inf"} <= bounds


@pytest.mark.parametrize(
    ("mode", "missing"), [(TelemetryMode.FILE, "folder"), (TelemetryMode.OTLP, "otlp_endpoint")]
)
def test_a_mode_without_its_destination_is_rejected(mode: TelemetryMode, missing: str) -> None:
    with pytest.raises(ValidationError, match=f"telemetry mode {mode} needs .*{missing}"):
        TelemetrySettings(mode=mode)


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
