import importlib.metadata
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

from podium_kit.bundled_files import BundledFilesMissing, bundled_folder
from podium_kit.embedded.errors import EmbeddedError
from podium_kit.embedded.gate import namespaces
from podium_kit.embedded.ports import free_ports
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.embedded.vllm.environment import VllmEnvironment
from podium_kit.text import format_bytes
from podium_operations import DISTRIBUTION
from podium_operations.finding import Finding
from podium_operations.local.ports import SERVERS
from tool_adapters.sandbox import IsolationUnavailable, LocalRunner

PYTHON_FROM, PYTHON_BELOW = (3, 11), (3, 14)
DISK_BYTES_NEEDED = 4_000_000_000
MEMORY_BYTES_NEEDED = 4_000_000_000
INSTALL = "run `make setup` in a checkout, or install podium-platform again"


async def examine(state_dir: Path) -> list[Finding]:
    return [
        _python(),
        _packages(),
        _files(),
        _vllm(),
        _model(),
        await _sandbox(),
        _networks(),
        _state_folder(state_dir),
        _ports(),
        _disk(state_dir),
        _memory(),
    ]


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    well = PYTHON_FROM <= sys.version_info < PYTHON_BELOW
    return Finding("Python", well, version, "" if well else "use Python 3.11, 3.12 or 3.13")


def _packages() -> Finding:
    try:
        needed = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return Finding("Python packages", False, f"{DISTRIBUTION} is not installed", INSTALL)
    missing = [name for name in map(_name, needed) if not _is_installed(name)]
    if missing:
        return Finding("Python packages", False, f"missing: {', '.join(missing)}", INSTALL)
    return Finding("Python packages", True, f"all {len(needed)} are installed")


def _name(requirement: str) -> str:
    for end in " [;<>=!~":
        requirement = requirement.split(end, 1)[0]
    return requirement


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _files() -> Finding:
    try:
        return Finding("bundled files", True, str(bundled_folder()))
    except BundledFilesMissing as error:
        return Finding("bundled files", False, *error.message.split(": ", 1))


def _vllm() -> Finding:
    fix = "run `make setup` or `podium up --yes`; not needed with --openai-base-url"
    return _installed("vLLM", lambda: VllmEnvironment().python.parent.parent, fix)


def _model() -> Finding:
    fix = "run `make setup` or `podium up --yes`; not needed with --model or --openai-base-url"
    return _installed("model SmolLM2", lambda: SmolLM2().directory, fix)


def _installed(what: str, locate: Callable[[], Path], fix: str) -> Finding:
    try:
        return Finding(what, True, str(locate()))
    except EmbeddedError as error:
        return Finding(what, False, str(error).partition(": ")[0], fix)


async def _sandbox() -> Finding:
    runner = LocalRunner()
    try:
        await runner.require_isolation()
    except IsolationUnavailable as error:
        cause, _, fix = str(error).rpartition("; ")
        return Finding("sandbox", False, cause, fix)
    finally:
        await runner.close()
    return Finding("sandbox", True, "bubblewrap and a system-call filter isolate code here")


def _networks() -> Finding:
    if namespaces.are_permitted():
        return Finding("networks", True, "Temporal and the broker get one of their own")
    return Finding("networks", False, "other users reach Temporal and the broker", namespaces.FIX)


def _state_folder(state_dir: Path) -> Finding:
    existing = next(folder for folder in (state_dir, *state_dir.parents) if folder.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Finding("state folder", True, str(state_dir))
    fix = "choose another with --state-dir or PODIUM_STATE_DIR, or make it writable"
    return Finding("state folder", False, f"{existing} is not writable", fix)


def _ports() -> Finding:
    try:
        ports = free_ports(len(SERVERS))
    except OSError as error:
        return Finding("ports", False, str(error), "end programs that hold loopback ports")
    return Finding("ports", True, f"{len(ports)} free ones on loopback")


def _disk(state_dir: Path) -> Finding:
    existing = next(folder for folder in (state_dir, *state_dir.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    well = free >= DISK_BYTES_NEEDED
    fix = "" if well else f"free {format_bytes(DISK_BYTES_NEEDED - free)} there"
    return Finding("disk", well, f"{format_bytes(free)} free at {existing}", fix)


def _memory() -> Finding:
    available = psutil.virtual_memory().available
    well = available >= MEMORY_BYTES_NEEDED
    fix = "" if well else "end other programs, or use --openai-base-url instead of vLLM"
    return Finding("memory", well, f"{format_bytes(available)} available", fix)
