from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One call of the orchestrator model, in token ids.

    The whole completion was sampled, so all of it is trained; what tools answered is in the
    prompts of later rows. Nothing is ever tokenised again: under a grammar the model samples
    splits that a tokenizer does not make.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    inference_logprobs: tuple[float, ...]
    """One per completion token, under the distribution it was sampled from."""
    temperature: float = 1.0
    constraint: str = ""
    """Digest of the grammar the completion was sampled under; empty: none."""
    exemplary: bool = True
    """True where it is imitated if its episode solved its task."""
    malformed: bool = False
    """True if the platform could not read it as calls or an answer."""

    def __post_init__(self) -> None:
        if len(self.completion_ids) != len(self.inference_logprobs):
            raise ValueError(
                f"{len(self.completion_ids)} tokens have {len(self.inference_logprobs)} logprobs"
            )
