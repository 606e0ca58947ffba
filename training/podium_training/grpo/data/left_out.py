import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from podium_training.grpo.data.episodes import Reason
from podium_training.grpo.data.groups import DUPLICATE, Dropped

log = logging.getLogger(__name__)

FIXES: Mapping[str, str] = {
    Dropped.ZERO_VARIANCE: "members of a group earn alike: play more of them at a higher"
    " temperature, or tasks that are solved now and then",
    Dropped.UNSOLVED: "nothing in a group is worth imitating: play tasks that are solved",
    Dropped.TOO_FEW: "too many members of a group ended without a result",
    Dropped.STALE: "play newer versions, or raise groups.versions_behind_max",
    Dropped.MIXED: "give all members of a group one task, one policy and one currency",
    Reason.NO_CONSENT: "the tenant does not allow training",
    Reason.NO_TOKENS: "the engine returns no token ids: serve the policy with vLLM",
    Reason.OTHER_TOKENIZER: "`model` is not what answered: its tokenizer or template is another",
    Reason.BROKEN_CONSTRAINT: "`model` is not what answered: its tokens are others",
    Reason.TOKEN_OUT_OF_RANGE: "`model` is not what answered: its vocabulary is smaller",
    Reason.TRUNCATED_SAMPLING: "play at a temperature above 0 and top_p 1",
    Reason.UNPRICED: "give every tool and model that is called a price",
    Reason.TOO_LONG: "raise step.row_tokens_max",
}


@dataclass
class LeftOut:
    warn_at: int
    """So many, and each time twice as many as before."""
    before: Counter[str] = field(default_factory=Counter)
    """Counts of the steps behind."""
    warned: int = 0

    def step_taken(self, counts: Counter[str]) -> None:
        self.before, self.warned = counts.copy(), 0

    def count(self, counts: Counter[str], step: int) -> int:
        """Counts the episodes that were not used so far; warns when there are too many."""
        since = self._since(counts)
        if since.total() >= max(self.warn_at, 2 * self.warned):
            self.warned = since.total()
            log.warning("no step after step %d: left out are %s", step, self.reasons(counts))
        return since.total()

    def reasons(self, counts: Counter[str]) -> str:
        return "; ".join(map(_in_words, self._since(counts).most_common()))

    def _since(self, counts: Counter[str]) -> Counter[str]:
        since = counts - self.before
        # A record that came twice is no loss.
        del since[DUPLICATE]
        return since


def _in_words(reason: tuple[str, int]) -> str:
    name, count = reason
    fix = f" ({FIXES[name]})" if name in FIXES else ""
    return f"{count} {name}{fix}"
