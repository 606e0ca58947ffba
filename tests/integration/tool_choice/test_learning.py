"""A small model learns which tool a question needs, through the trainer's own step.

Token ids, log-probabilities under the grammar, its replay, group advantages and the loss are
those of every run. Only the server is left out: choices are drawn in this process from the
exact distribution under the grammar: all ways to begin a completion, up to where nothing but
a name's spelling is left, are computed in one forward pass that shares their prompts.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from embedded import SmolLM2
from grpo.config import LoraConfig
from grpo.grammar import GrammarReplay
from grpo.groups import GroupAssembler, GroupRules
from grpo.learner import Learner, StepOptions
from grpo.losses import Loss, LossOptions
from grpo.policy import load_policy
from integration.tool_choice.named_tools import held_out_questions, training_questions
from tool_choice.course import Course, CourseOptions, accuracy
from tool_choice.openings import Openings
from tool_choice.questions import Question
from tool_choice.sampling import ChoiceSampler

STEPS = 10
HELD_OUT = 200
GOAL = 0.95
# Adam measures gradients by those before: clipped to one norm, late and small ones would not be
# small. The prompts of a batch begin alike: one tree holds them all.
STEP = StepOptions(LossOptions(loss=Loss.CISPO), tokens_max=1_000_000, gradient_norm_max=math.inf)
# Groups that agree count in the denominator: few that differ do not move it as many would.
RULES = GroupRules(std_floor=0.0)
OPTIONS = CourseOptions(questions=32, members=32)
OPTIMISER = partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.0)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """The same seed gives the same bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(SmolLM2().directory)


@pytest.fixture(scope="module")
def held_out(tokenizer: PreTrainedTokenizerBase) -> Sequence[Question]:
    return held_out_questions(tokenizer, HELD_OUT)


@pytest.fixture
def model() -> PreTrainedModel:
    return load_policy(SmolLM2().directory, LoraConfig())


@pytest.fixture
def grammar(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> GrammarReplay:
    return GrammarReplay(tokenizer, model.config.vocab_size)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator()


@pytest.fixture
def sampler(
    model: PreTrainedModel,
    grammar: GrammarReplay,
    tokenizer: PreTrainedTokenizerBase,
    generator: torch.Generator,
) -> ChoiceSampler:
    openings = Openings(grammar, tokenizer, model.config.vocab_size)
    return ChoiceSampler(model, grammar, openings, generator)


def rate(step: int) -> float:
    """Half while Adam has seen a single gradient; falling to little at the end."""
    return 0.5 if step == 0 else min(1.0, 1.2 * (1 - step / STEPS))


def test_the_model_does_not_know_the_tools_by_itself(
    sampler: ChoiceSampler, held_out: Sequence[Question]
) -> None:
    assert accuracy(sampler, held_out[:40]) < 0.5


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tool_choice_is_learnt_for_wordings_never_trained_on(
    seed: int,
    model: PreTrainedModel,
    grammar: GrammarReplay,
    sampler: ChoiceSampler,
    tokenizer: PreTrainedTokenizerBase,
    generator: torch.Generator,
    held_out: Sequence[Question],
) -> None:
    generator.manual_seed(seed)
    learner = Learner(model, OPTIMISER, grammar, STEP)
    questions = training_questions(tokenizer, seed)
    course = Course(learner, sampler, GroupAssembler(RULES), questions, OPTIONS)
    for step in range(STEPS):
        course.step(rate(step))
    assert accuracy(sampler, held_out) >= GOAL
