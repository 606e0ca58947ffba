import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import httpx

from podium_kit.embedded import ports
from podium_kit.embedded.command import foreign_environment
from podium_kit.embedded.errors import EmbeddedError
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.server import EmbeddedServer
from podium_kit.embedded.vllm.environment import VllmEnvironment

# What runs in vLLM's own environment, the server among it.
INSIDE = Path(__file__).with_name("inside")
SERVER_MODULE = "serve"
KEY_GUARD = "key_guard.KeyGuard"
KV_CACHE_GIB = 2
# Different adapters in one batch, and in memory: candidate, promoted and those before them.
ADAPTERS_AT_ONCE, ADAPTERS_LOADED = 4, 16
# A small model drifts into endless blanks where the grammar allows them.
STRUCTURED_OUTPUTS = {"backend": "xgrammar", "disable_any_whitespace": True}
CPU_FLAGS_FILE = Path("/proc/cpuinfo")
BFLOAT16_CPU_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}


class ModelFolderMissing(EmbeddedError):
    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory} holds no model (no config.json): check the path")
        self.directory = directory


class EmbeddedVllm(EmbeddedServer):
    start_timeout_s = 300.0

    def __init__(
        self,
        model_dir: Path,
        served_model_name: str,
        port: int,
        *,
        log_path: Path,
        environment: VllmEnvironment | None = None,
        max_model_len: int = 8192,
        max_num_seqs: int = 32,
        adapter_rank_max: int = 0,
        api_key: str = "",
        extra_args: Sequence[str] = (),
    ) -> None:
        """LoRA adapters up to `adapter_rank_max` can be loaded at run time; 0 loads none.

        With a key every request must show it, except the question for the server's health.

        Raises VllmNotInstalled.
        """
        self.port = port
        self.base_url = f"http://{ports.LOOPBACK}:{port}/v1"
        self._model_dir = model_dir
        self._served_model_name = served_model_name
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        argv: list[str | Path] = [
            *((environment or VllmEnvironment()).python, "-m", SERVER_MODULE),
            *("--model", model_dir, "--served-model-name", served_model_name),
            *("--host", ports.LOOPBACK, "--port", str(port)),
            *("--max-model-len", str(max_model_len), "--max-num-seqs", str(max_num_seqs)),
            *("--dtype", cpu_dtype(), "--enforce-eager", "--enable-prefix-caching"),
            *("--structured-outputs-config", json.dumps(STRUCTURED_OUTPUTS)),
            # Log-probabilities of the distribution sampled from, and what the cache served.
            *("--logprobs-mode", "processed_logprobs", "--enable-prompt-tokens-details"),
            "--enable-tokenizer-info-endpoint",
            # Warm-up runs one full batch: a small one starts seconds earlier.
            *("--max-num-batched-tokens", "2048"),
            *("--distributed-executor-backend", "uni", "--disable-uvicorn-access-log"),
            *(_adapter_args(adapter_rank_max) if adapter_rank_max else ()),
            *(("--middleware", KEY_GUARD) if api_key else ()),
            *extra_args,
        ]
        process = ManagedProcess(
            "vllm",
            argv,
            log_path=log_path,
            env=_environment_variables(bool(adapter_rank_max)) | _key_variables(api_key),
            # The server has an engine process of its own to take along.
            orphan_signal=signal.SIGTERM,
        )
        super().__init__(process)

    async def prepare(self) -> None:
        if not (self._model_dir / "config.json").exists():
            raise ModelFolderMissing(self._model_dir)
        ports.require_free(self.port)

    async def answers(self) -> bool:
        origin = f"http://{ports.LOOPBACK}:{self.port}"
        try:
            async with httpx.AsyncClient(
                base_url=origin, headers=self._headers, trust_env=False
            ) as client:
                health = await client.get("/health")
                models = await client.get("/v1/models")
        except httpx.TransportError:
            return False
        return health.is_success and self._served_model_name in _model_ids(models)


def cpu_dtype() -> str:
    """bfloat16 where the CPU computes in it; elsewhere float32 is up to five times faster."""
    if not CPU_FLAGS_FILE.exists():
        return "float32"
    flags = set(CPU_FLAGS_FILE.read_text().split())
    return "bfloat16" if flags & BFLOAT16_CPU_FLAGS else "float32"


def _adapter_args(rank_max: int) -> list[str]:
    slots = ("--max-loras", str(ADAPTERS_AT_ONCE), "--max-cpu-loras", str(ADAPTERS_LOADED))
    return ["--enable-lora", "--max-lora-rank", str(rank_max), *slots]


def _model_ids(response: httpx.Response) -> list[str]:
    return [model["id"] for model in response.json()["data"]] if response.is_success else []


def _key_variables(api_key: str) -> dict[str, str]:
    """Returns the key as environment variables: every user of the machine can read arguments."""
    return {"VLLM_API_KEY": api_key} if api_key else {}


def _environment_variables(adapters: bool) -> dict[str, str]:
    """The engine runs in one process instead of two, which saves a round of imports.

    vLLM then leaves threads alone, so they are set here: all cores that it may use, none pinned.
    """
    return foreign_environment() | {
        "PYTHONPATH": str(INSIDE),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))),
        # On a busy machine, threads that spin at barriers make small products 40 times slower.
        "OMP_WAIT_POLICY": "passive",
        "VLLM_CPU_KVCACHE_SPACE": str(KV_CACHE_GIB),
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        # Log-probabilities would wait for a C++ compiler at first, or end the engine without one.
        "TORCH_COMPILE_DISABLE": "1",
        # Its load endpoint is on loopback, as everything of this server.
        **({"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"} if adapters else {}),
    }
