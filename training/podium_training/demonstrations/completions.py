"""An action as the chat completion of an engine that was certain of it."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

# The demonstrator's distribution has one outcome, whose probability is 1.
CERTAIN = 0.0


def completion(
    tokenizer: PreTrainedTokenizerBase,
    model: str,
    messages: Sequence[Mapping[str, str]],
    text: str,
) -> dict[str, Any]:
    """The body of a chat completion with token ids, as vLLM gives it for `return_token_ids`.

    The ids end with the end-of-turn token, which a policy has to learn, too.
    """
    prompt_ids = tokenizer.apply_chat_template(
        [dict(message) for message in messages], add_generation_prompt=True, return_dict=False
    )
    ids = [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
        "token_ids": ids,
        "logprobs": {"content": [_certain(tokenizer, token) for token in ids]},
    }
    return {
        "id": f"demonstration-{time.time_ns()}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "prompt_token_ids": prompt_ids,
        "usage": {
            "prompt_tokens": len(prompt_ids),
            "completion_tokens": len(ids),
            "total_tokens": len(prompt_ids) + len(ids),
        },
    }


def _certain(tokenizer: PreTrainedTokenizerBase, token: int) -> dict[str, Any]:
    return {"token": tokenizer.decode([token]), "logprob": CERTAIN, "top_logprobs": []}
