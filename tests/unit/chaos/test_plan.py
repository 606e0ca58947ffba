from itertools import islice

import pytest

from chaos.pairs import ROUNDS, Fault, Round, left_out
from chaos.plan import UnknownRound, planned, random_rounds
from chaos.victims import VICTIMS


def test_the_same_seed_plans_the_same_rounds_and_another_seed_others() -> None:
    assert planned(7) == planned(7)
    assert planned(7) != planned(8)
    assert list(islice(random_rounds(7), 50)) == list(islice(random_rounds(7), 50))


def test_a_whole_run_makes_every_round_once() -> None:
    assert sorted(map(str, planned(1))) == sorted(map(str, ROUNDS))


def test_a_run_is_narrowed_by_victim_by_fault_and_by_both() -> None:
    assert {one.victim for one in planned(1, only=["postgres"])} == {"postgres"}
    assert {one.fault for one in planned(1, only=["stall"])} == {Fault.STALL}
    assert planned(1, only=["kafka:kill"]) == [Round("kafka", Fault.KILL)]
    assert len(planned(1, count=3)) == 3


def test_what_is_no_round_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownRound, match="gateway:kill"):
        planned(1, only=["gatewya"])


def test_every_pair_of_victim_and_fault_is_a_round_or_has_a_reason() -> None:
    reasons = left_out()
    pairs = {Round(victim, fault) for victim in VICTIMS for fault in Fault}
    assert pairs <= {*ROUNDS, *reasons}
    assert not set(ROUNDS) & set(reasons)
    assert all(reasons.values())
