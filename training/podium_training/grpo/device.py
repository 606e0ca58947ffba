import os

import torch

from podium_training.grpo.config import DeviceName, InvalidConfig


def choose_device(wanted: DeviceName) -> torch.device:
    """The CPU, or this process's own GPU: under `torchrun` the one of its local rank.

    Raises InvalidConfig where there is no such GPU.
    """
    seen = torch.cuda.device_count()
    if wanted == "cpu" or (wanted == "auto" and not seen):
        return torch.device("cpu")
    if not seen:
        raise InvalidConfig(
            "device: cuda, but torch sees no GPU; install a driver and a build of torch for CUDA,"
            " or set `device: cpu`"
        )
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if rank >= seen:
        raise InvalidConfig(
            f"torchrun started more processes here than the {seen} GPUs torch sees;"
            f" start {seen}, or set `device: cpu`"
        )
    # cuBLAS reads it once; without it torch rejects to multiply deterministically.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    return device
