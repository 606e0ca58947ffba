"""Runs inside vLLM: a seed and a prompt that is computed in parts do not end an engine on a CPU.

After a part that is not the last, vLLM's own code sets a seeded request's generator back behind
the token that it drew too much. A CPU's generator cannot be set back: it raises, and the engine
ends with all of its requests.
"""

from typing import Any

from vllm.v1.worker.gpu_model_runner import GPUModelRunner


def install() -> None:
    bookkeeping = GPUModelRunner._bookkeeping_sync

    def restarting(runner: Any, *args: Any, **kwargs: Any) -> Any:
        """Before a prompt's last part no token counts, so the generator begins again.

        It does so, too, where a request was preempted and its own tokens are part of the prompt.
        """
        batch = runner.input_batch
        in_parts = runner.discard_request_mask.np[: batch.num_reqs].nonzero()[0].tolist()
        seeded = {row: batch.generators.pop(row) for row in in_parts if row in batch.generators}
        for generator in seeded.values():
            generator.manual_seed(generator.initial_seed())
        try:
            return bookkeeping(runner, *args, **kwargs)
        finally:
            batch.generators.update(seeded)

    GPUModelRunner._bookkeeping_sync = restarting
