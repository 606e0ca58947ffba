"""A server that speaks vLLM's API and truly samples: from a small model, under the grammar.

    with SamplingServer(make_speaker(), make_chat_tokenizer()) as server:
        ...  # server.base_url

Its log-probabilities and token ids are those of what it sampled, so a policy learns from them.
"""

import json
from typing import Any

import torch
import xgrammar
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from transformers import LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from podium_training.grpo.model.grammar import Constraint, GrammarReplay
from servers.vllm_server import BASE, VllmServer, rejected
from unit.podium_training.grpo.builders import make_model, make_tokenizer

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}>>{% endif %}"
)
PROMPT_TOKENS = 1600
LESSON_TOKENS = 200
LESSONS, LESSONS_A_STEP = 120, 8


class SamplingServer(VllmServer):
    """Completions are drawn at the temperature that is asked for; 0 takes the likeliest token."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> None:
        super().__init__(model)
        self._tokenizer = tokenizer
        self._grammar = GrammarReplay(tokenizer, len(tokenizer))
        self._draw = torch.Generator().manual_seed(0)

    def _app(self) -> Any:
        app = super()._app()
        app.router.routes.append(Route("/tokenizer_info", self._tokenizer_info))
        return app

    async def _tokenizer_info(self, request: Request) -> Response:
        return JSONResponse({"chat_template": self._tokenizer.chat_template})

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        if body["model"] not in (BASE, *self.loaded):
            return rejected(404, f"The model `{body['model']}` does not exist.")
        schema = body["response_format"]["json_schema"]["schema"]
        prompt = self._tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, return_dict=False
        )
        ids, logprobs = self._sampled(body, prompt, schema)
        ended = ids[-1] == self._tokenizer.eos_token_id
        text = self._tokenizer.decode(ids, skip_special_tokens=True)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop" if ended else "length",
            "token_ids": ids,
            "logprobs": {"content": [{"token": "", "logprob": each} for each in logprobs]},
        }
        usage = {
            "prompt_tokens": len(prompt),
            "completion_tokens": len(ids),
            "total_tokens": len(prompt) + len(ids),
        }
        reply = {"id": "sampled", "model": self._said(body["model"]), "choices": [choice]}
        return JSONResponse(reply | {"prompt_token_ids": prompt, "usage": usage})

    @torch.no_grad()
    def _sampled(
        self, body: dict[str, Any], prompt: list[int], schema: dict[str, Any]
    ) -> tuple[list[int], list[float]]:
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        matcher = self._grammar.matcher(Constraint(text, any_whitespace=False))
        bits = xgrammar.allocate_token_bitmask(1, len(self._tokenizer))
        weights, temperature = self._weights(body["model"]), body["temperature"]
        ids: list[int] = []
        logprobs: list[float] = []
        inputs, cache = torch.tensor([prompt]), None
        while len(ids) < body["max_tokens"] and not matcher.is_terminated():
            output = torch.func.functional_call(
                self._model,
                weights,
                (inputs,),
                {"past_key_values": cache, "use_cache": True},
                tie_weights=False,
            )
            cache = output.past_key_values
            logits = output.logits[:, -1].float()
            matcher.fill_next_token_bitmask(bits)
            xgrammar.apply_token_bitmask_inplace(logits, bits)
            said = (logits / (temperature or 1)).log_softmax(dim=-1)[0]
            token = int(
                said.argmax()
                if temperature == 0
                else torch.multinomial(said.exp(), 1, generator=self._draw)
            )
            assert matcher.accept_token(token)
            ids.append(token)
            logprobs.append(float(said[token]))
            inputs = torch.tensor([[token]])
        return ids, logprobs


def make_chat_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def make_speaker(answers: dict[str, float]) -> LlamaForCausalLM:
    """A small model taught to give each of the one-letter answers that often, whatever is asked."""
    tokenizer = make_chat_tokenizer()
    model = make_model(vocabulary=len(tokenizer))
    model.config.max_position_embeddings = 2 * PROMPT_TOKENS
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    draw = torch.Generator().manual_seed(0)
    letters = list(answers)
    shares = torch.tensor([answers[letter] for letter in letters])
    said = [[*tokenizer.encode(f'>>{{"answer":"{letter}"}}'), 1] for letter in letters]
    for _ in range(LESSONS):
        length = int(torch.randint(8, LESSON_TOKENS, (1,), generator=draw))
        prompts = torch.randint(3, len(tokenizer), (LESSONS_A_STEP, length), generator=draw)
        chosen = torch.multinomial(shares, LESSONS_A_STEP, replacement=True, generator=draw)
        completions = torch.tensor([said[int(index)] for index in chosen])
        logits = model(torch.cat([prompts, completions], dim=1)).logits
        # What follows the two characters of the mark, told from the second of them on.
        told = logits[:, length + 1 : -1].flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(told, completions[:, 2:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()
