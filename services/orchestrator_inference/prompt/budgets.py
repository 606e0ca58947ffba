"""Budgets of the parts of a prompt.

The paper's cascade: attempts get a budget, code and attempts together another, and
documents what is left of the whole. Over-long text keeps its end, where the newest
results and the conclusions are.
"""

from dataclasses import dataclass

from pydantic import BaseModel, Field

from orchestrator_inference.errors import ContextTooLong

# The service has no tokenizer: UTF-8 bytes per token are about 4 for English, 3 for code and for
# Chinese, 1 where a model reads digit by digit. So what is cut by this estimate, or rejected by the
# engine, is laid out again by the engine's own count of the prompt.
BYTES_PER_TOKEN = 3
PROMPT_TOKENS_MIN = 64


class SectionBudgets(BaseModel, frozen=True):
    """Tokens per section, as the paper has them; scaled down together for a smaller context."""

    prompt_tokens_max: int = Field(27_000, gt=0, description="of the whole prompt")
    code_and_attempts_tokens_max: int = Field(
        12_000, gt=0, description="of code, its output and past attempts together"
    )
    attempts_tokens_max: int = Field(8_000, gt=0, description="of past attempts")
    document_tokens_max: int = Field(1_000, gt=0, description="of one retrieved document")
    tool_description_chars_max: int = Field(
        400, gt=0, description="characters of a tool's description"
    )


@dataclass(frozen=True)
class Room:
    prompt_tokens: int
    """Counted as `estimated_tokens` does."""
    budgets: SectionBudgets
    estimated_per_token: float = 1.0
    """Estimated tokens for one token of the model."""

    def scaled(self, tokens: int) -> int:
        """Scales a budget to the counts of `estimated_tokens`."""
        whole = self.budgets.prompt_tokens_max * self.estimated_per_token
        share = min(1.0, self.prompt_tokens / whole)
        return max(1, int(tokens * share * self.estimated_per_token))

    def counted(self, estimated: int, tokens: int) -> "Room":
        """The same tokens of a model that counted so many in a prompt where we estimated others."""
        ratio = estimated / max(1, tokens)
        size = int(self.prompt_tokens * ratio / self.estimated_per_token)
        return Room(size, self.budgets, ratio)

    def shrunk(self) -> "Room":
        """Half of it, for an engine that counted more tokens than estimated, and not how many."""
        return Room(self.prompt_tokens // 2, self.budgets, self.estimated_per_token)


def room_for(context_tokens: int, max_tokens: int, budgets: SectionBudgets) -> Room:
    """Room a context leaves beside the completion; an unknown context (0) leaves all.

    Raises ContextTooLong when the completion alone fills the context.
    """
    if not context_tokens:
        return Room(budgets.prompt_tokens_max, budgets)
    left = context_tokens - max_tokens
    if left < PROMPT_TOKENS_MIN:
        raise ContextTooLong(
            f"max_tokens {max_tokens} leaves {left} of {context_tokens} tokens; ask for fewer"
        )
    return Room(min(left, budgets.prompt_tokens_max), budgets)


def estimated_tokens(text: str) -> int:
    """Estimates rather too many tokens than too few."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def keep_end(text: str, tokens_max: int) -> str:
    encoded = text.encode()
    size = max(0, tokens_max) * BYTES_PER_TOKEN
    if len(encoded) <= size:
        return text
    return encoded[len(encoded) - size :].decode(errors="ignore")
