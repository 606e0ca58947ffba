import random
from collections.abc import Iterator, Sequence

from chaos.pairs import ROUNDS, Fault, Round


class UnknownRound(ValueError):
    def __init__(self, asked: str) -> None:
        known = ", ".join(sorted(map(str, ROUNDS)))
        super().__init__(f"{asked!r} is no victim:fault; known are {known}")


def planned(seed: int, count: int | None = None, only: Sequence[str] = ()) -> list[Round]:
    """Every round once, or `count` of them; `only` narrows by victim, fault or victim:fault.

    Raises UnknownRound.
    """
    rounds = [one for one in ROUNDS if not only or any(_is(one, asked) for asked in _known(only))]
    random.Random(seed).shuffle(rounds)
    return rounds if count is None else rounds[:count]


def random_rounds(seed: int, faults: Sequence[Fault] = tuple(Fault)) -> Iterator[Round]:
    choice = random.Random(seed)
    possible = [one for one in ROUNDS if one.fault in faults]
    while True:
        yield choice.choice(possible)


def _known(only: Sequence[str]) -> Sequence[str]:
    for asked in only:
        if not any(_is(one, asked) for one in ROUNDS):
            raise UnknownRound(asked)
    return only


def _is(one: Round, asked: str) -> bool:
    return asked in (str(one), one.victim, one.fault)
