"""A real HTTP server that speaks vLLM's API for adapters, with a small model that truly answers.

Log-probabilities are computed from the files it was asked to load, in torch, so a wrong file
gives a wrong answer as it does in vLLM. `faults` make it fail as real servers have:

    with VllmServer(base_model) as server:
        server.faults["policy-run-v2"] = Serve("policy-run-v1")   # a stale adapter
"""

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
import uvicorn
from safetensors.torch import load_file
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from transformers import PreTrainedModel

BASE = "base"
TOKEN_IDS_MAX = 128
Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Serve:
    """Answers with what was loaded under another name; BASE: the adapter has no effect."""

    name: str


@dataclass(frozen=True)
class RejectToLoad:
    """Answers the loading of a name as vLLM does when it cannot."""


@dataclass(frozen=True)
class AnswerAs:
    name: str


Fault = Serve | RejectToLoad | AnswerAs


class VllmServer:
    """One replica, in a thread of this process; usable as a context manager."""

    def __init__(self, model: PreTrainedModel, port: int = 0) -> None:
        self.faults: dict[str, Fault] = {}
        self.loaded: dict[str, Weights] = {}
        self.keeps_everything = False
        """Rejects to unload."""
        self.answered: list[str] = []
        """Model of every chat completion."""
        self._model = model
        self._base = {name: value.clone() for name, value in model.state_dict().items()}
        config = uvicorn.Config(self._app(), port=port, log_level="critical", access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    @property
    def base_url(self) -> str:
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join()

    def _app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/version", self._version),
                Route("/v1/load_lora_adapter", self._load, methods=["POST"]),
                Route("/v1/unload_lora_adapter", self._unload, methods=["POST"]),
                Route("/v1/completions", self._score, methods=["POST"]),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
            ]
        )

    async def _models(self, request: Request) -> Response:
        cards = [{"id": BASE, "object": "model", "owned_by": "vllm"}]
        cards += [{"id": name, "owned_by": "vllm", "parent": BASE} for name in self.loaded]
        return JSONResponse({"object": "list", "data": cards})

    async def _version(self, request: Request) -> Response:
        return JSONResponse({"version": "0.32.0"})

    async def _load(self, request: Request) -> Response:
        body = await request.json()
        name, folder = body["lora_name"], Path(body["lora_path"])
        if name in self.loaded:
            return rejected(400, f"The lora adapter '{name}' has already been loaded.")
        weights = folder / "adapter_model.safetensors"
        if isinstance(self.faults.get(name), RejectToLoad) or not weights.exists():
            return rejected(404, f"No adapter found for {name}")
        self.loaded[name] = self._merged(folder)
        return PlainTextResponse(f"Success: LoRA adapter '{name}' added successfully.")

    async def _unload(self, request: Request) -> Response:
        name = (await request.json())["lora_name"]
        if self.keeps_everything:
            return rejected(500, "Internal server error")
        if self.loaded.pop(name, None) is None:
            return rejected(404, f"The lora adapter '{name}' cannot be found.")
        return PlainTextResponse(f"Success: LoRA adapter '{name}' removed successfully.")

    async def _score(self, request: Request) -> Response:
        body = await request.json()
        if body["model"] not in (BASE, *self.loaded):
            return rejected(404, f"The model `{body['model']}` does not exist.")
        if len(body["logprob_token_ids"]) > TOKEN_IDS_MAX:
            return rejected(400, "which is greater than max allowed: 128")
        scored = self._scored(body["model"], body["prompt"])
        choices = [
            {
                "index": number,
                "text": "",
                "logprobs": {
                    "top_logprobs": [
                        {f"token_id:{one}": float(row[one]) for one in body["logprob_token_ids"]}
                    ]
                },
            }
            for number, row in enumerate(scored)
        ]
        return JSONResponse({"model": self._said(body["model"]), "choices": choices})

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        if body["model"] not in (BASE, *self.loaded):
            return rejected(404, f"The model `{body['model']}` does not exist.")
        self.answered.append(body["model"])
        message = {"role": "assistant", "content": json.dumps({"answer": "42"})}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({"model": self._said(body["model"]), "choices": [choice]})

    def _said(self, name: str) -> str:
        fault = self.faults.get(name)
        return fault.name if isinstance(fault, AnswerAs) else name

    def _weights(self, name: str) -> Weights:
        fault = self.faults.get(name)
        served = fault.name if isinstance(fault, Serve) else name
        return self._base if served == BASE else self.loaded.get(served, self._base)

    @torch.no_grad()
    def _scored(self, name: str, prompts: list[list[int]]) -> torch.Tensor:
        """(prompts, vocabulary): what it says of every token that could come next."""
        longest = max(map(len, prompts))
        # What comes after a token does not change what is said of it.
        inputs = torch.tensor([ids + [0] * (longest - len(ids)) for ids in prompts])
        weights = self._weights(name)
        output = torch.func.functional_call(self._model, weights, (inputs,), tie_weights=False)
        last = torch.tensor([len(ids) - 1 for ids in prompts])
        logits = output.logits[torch.arange(len(prompts)), last]
        logprobs: torch.Tensor = logits.float().log_softmax(dim=-1)
        return logprobs

    def _merged(self, folder: Path) -> Weights:
        """W + (alpha / r) B A for every adapted layer (PEFT's layout of LoRA)."""
        config: Mapping[str, Any] = json.loads((folder / "adapter_config.json").read_text())
        found = load_file(folder / "adapter_model.safetensors")
        merged = dict(self._base)
        for key in [key for key in found if key.endswith(".lora_A.weight")]:
            layer = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            up = found[key.replace("lora_A", "lora_B")]
            change = (config["lora_alpha"] / config["r"]) * up @ found[key]
            merged[f"{layer}.weight"] = merged[f"{layer}.weight"] + change
        return merged


def rejected(status: int, words: str) -> Response:
    return JSONResponse({"error": {"message": words, "code": status}}, status)
