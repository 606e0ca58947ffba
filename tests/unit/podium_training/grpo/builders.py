"""Models, tokenizers, rows and trajectories of a few tokens, made on the spot."""

import hashlib
import math
from typing import Any

import torch
from google.protobuf.duration_pb2 import Duration
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from podium.common.v1 import money_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import trajectory_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import policy_pb2
from podium_training.grpo.model.samples import Row

VOCABULARY = 64


def make_model(seed: int = 0, vocabulary: int = VOCABULARY) -> LlamaForCausalLM:
    """Two layers, random weights, float32."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    return LlamaForCausalLM(config).eval()


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per printable ASCII character; 0 begins, 1 ends, 2 pads."""
    characters = ["<s>", "</s>", "<pad>", *map(chr, range(32, 127))]
    inner = Tokenizer(models.WordLevel({c: i for i, c in enumerate(characters)}, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def make_row(prompt: list[int], completion: list[int], **fields: object) -> Row:
    even = tuple([-math.log(VOCABULARY)] * len(completion))
    return Row(tuple(prompt), tuple(completion), even, **fields)  # type: ignore[arg-type]


def make_group(seed: int, members: int = 4, prompt: int = 12, longest: int = 8) -> list[Row]:
    draw = torch.Generator().manual_seed(seed)

    def ids(count: int) -> list[int]:
        return torch.randint(3, VOCABULARY, (count,), generator=draw).tolist()

    start = ids(prompt)
    return [make_row(start, ids(3 + (index * 3) % (longest - 2))) for index in range(members)]


SCHEMA = '{"enum":["add","ask"]}'
DIGEST = hashlib.sha256(f"any_whitespace=False\n{SCHEMA}".encode()).hexdigest()


def make_response(**fields: Any) -> orchestrator_pb.NextActionResponse:
    defaults: dict[str, Any] = {
        "prompt_token_ids": [3, 4, 5],
        "completion_token_ids": [6, 7],
        "completion_logprobs": [-0.5, -0.25],
        "model_version": "policy-1",
        "constraint_digest": DIGEST,
        "constraint_json_schema": SCHEMA,
        "sampling": orchestrator_pb.Sampling(temperature=1.0, max_tokens=64),
    }
    return orchestrator_pb.NextActionResponse(**defaults | fields)


def make_trajectory(
    episode_id: str = "e1",
    *,
    solved: bool = True,
    cost: str = "0.01",
    response: orchestrator_pb.NextActionResponse | None = None,
    **fields: Any,
) -> pb.Trajectory:
    money = money_pb2.Money(currency_code="USD", amount=cost)
    call = pb.ModelCall(response=response or make_response())
    defaults: dict[str, Any] = {
        "episode_id": episode_id,
        "group_id": "g1",
        "group_size": 2,
        "tenant": "acme",
        "tool_names": ["calculator", "search"],
        "preferences": policy_pb2.PreferenceVector(
            outcome=1.0, compute=0.5, tools={"calculator": 0.25}
        ),
        "turns": [pb.Turn(number=1, model_call=call)],
        "stop_reason": episode_pb2.STOP_REASON_ANSWERED,
        "outcomes": [pb.Outcome(verifier="numeric", verifier_version="1", score=float(solved))],
        "features": pb.RewardFeatures(
            tool_call_counts=[1, 0], cost=money, latency=Duration(seconds=2)
        ),
        "cost": money,
        "training_consent": True,
    }
    return pb.Trajectory(**defaults | fields)
