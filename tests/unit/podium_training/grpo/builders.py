"""Small models, tokenizers and rows, made on the spot."""

import math

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

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
