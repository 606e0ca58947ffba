"""A tiny model of Qwen3's architecture and tokenizer family that has learned one reply by heart.

Its weights are random but for seconds of training, so it runs on any CPU; what serves it treats it
as it treats Qwen3-8B or the paper's checkpoint.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
STEPS_MAX, BATCH, PREFIX = 1000, 8, 24
# The form in which Qwen3 reads messages and tools: ChatML, with the tools in the system message.
TEMPLATE = """\
{%- set system = messages[0].content if messages[0].role == 'system' else '' -%}
<|im_start|>system
{{ system }}
{%- if tools %}

# Tools

<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>

Call one with <tool_call> and </tool_call> around {"name": ..., "arguments": ...}.
{%- endif %}<|im_end|>
{% for message in messages if message.role != 'system' -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}
{%- endif -%}
"""


def write_tiny_qwen3(folder: Path, reply: Sequence[str]) -> Path:
    """Writes a model that answers every prompt with the parts of the reply, one behind the other.

    Each part is one token, so that what follows a token never depends on those before it.
    """
    tokenizer = _tokenizer(reply)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(_config(tokenizer))
    start = tokenizer.encode("<|im_start|>assistant\n")
    wanted = [*start, *tokenizer.convert_tokens_to_ids([*reply, "<|im_end|>"])]
    _learn(model, wanted, len(start))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(reply: Sequence[str]) -> PreTrainedTokenizerFast:
    bytewise = Tokenizer(models.BPE())
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bytewise.train_from_iterator([TEMPLATE, Path(__file__).read_text()], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytewise, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    # As in Qwen3: each mark is one token, and none is skipped when text is decoded.
    tokenizer.add_tokens([*MARKS, *(part for part in reply if part not in MARKS)])
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def _config(tokenizer: PreTrainedTokenizerFast) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )


def _learn(model: Qwen3ForCausalLM, wanted: list[int], start: int) -> None:
    """Trains on the reply behind random text, until it is what the model would always write."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    reply = torch.tensor(wanted).repeat(BATCH, 1)
    for _ in range(STEPS_MAX):
        noise = torch.randint(model.config.vocab_size, (BATCH, PREFIX))
        inputs = torch.cat([noise, reply], dim=1)
        labels = inputs.clone()
        labels[:, : PREFIX + start] = -100
        loss = model(input_ids=inputs, labels=labels).loss
        if loss.item() < 0.01:
            return
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    raise AssertionError(f"the tiny model has not learned its reply: loss {loss.item():.3f}")
