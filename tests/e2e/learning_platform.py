"""A platform whose model is small enough to learn within a test."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from integration.podium_cli.conftest import CommandLine, end_quietly, wait_until_up
from servers.sampling_server import SamplingServer, make_chat_tokenizer, make_speaker
from servers.vllm_server import BASE
from temporary_files import server_folder

# What the model says before it learns, which is mostly wrong.
SAYS = {"x": 0.35, "y": 0.65}
GROUPS, GROUP_SIZE, STEPS = 12, 8, 3
PRICES = """
specs:
- sku: orchestrator/base
  currencyCode: USD
  components: &components
  - {dimension: USAGE_DIMENSION_INPUT_FRESH, unitPrice: "0.2", per: "1000000"}
  - {dimension: USAGE_DIMENSION_OUTPUT_TEXT, unitPrice: "0.2", per: "1000000"}
- sku: llm/base
  currencyCode: USD
  components: *components
"""


@dataclass(frozen=True)
class Learner:
    podium: CommandLine
    folder: Path
    model: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def connection(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.podium.state_dir / "connection.json").read_text())
        return found

    def apply(self, name: str, spec: str) -> str:
        path = self.folder / f"{name}.yaml"
        path.write_text(f"name: {name}\n{spec}")
        self.podium.json("policies", "apply", "-f", str(path))
        return name

    def write_run(self, name: str) -> str:
        config = {
            "model": str(self.model),
            "output": str(self.folder / f"run-{name}"),
            "steps": STEPS,
            "stream": {**self.connection["kafka"], "patience_s": 120},
            "step": {
                # Groups whose episodes all agree teach nothing and are left out.
                "groups": GROUPS // 4,
                "learning_rate": 0.03,
                "weight_decay": 0.0,
                # Some episodes are older than the version before the step.
                "drift_stop": 100.0,
            },
            "lora": {"rank": 8, "alpha": 16},
            "publish": {"store": str(self.store), "run": name},
        }
        path = self.folder / f"run-{name}.yaml"
        path.write_text(yaml.safe_dump(config))
        return str(path)


@contextmanager
def learning_platform(name: str) -> Iterator[Learner]:
    speaker, tokenizer = make_speaker(SAYS), make_chat_tokenizer()
    with server_folder(name) as folder, SamplingServer(speaker, tokenizer) as engine:
        model = folder / "model"
        speaker.save_pretrained(model)
        tokenizer.save_pretrained(model)
        podium = CommandLine(folder / "state", {"PODIUM_POLICY_STORE": str(folder / "store")})
        engine_options = ("--openai-base-url", engine.base_url, "--openai-model", BASE)
        process = podium.start("up", *engine_options)
        wait_until_up(podium, process)
        (folder / "prices.yaml").write_text(PRICES)
        podium.json("prices", "import", str(folder / "prices.yaml"))
        yield Learner(podium, folder, model)
        end_quietly(process, signal.SIGTERM)
