from tool_adapters.calls.breaker import Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def opened() -> tuple[Breaker, Clock]:
    clock = Clock()
    breaker = Breaker(failures_to_open=3, cool_down_s=10, clock=clock)
    for _ in range(3):
        assert breaker.lets_pass()
        breaker.record(unwell=True)
    return breaker, clock


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker, _ = opened()
    assert not breaker.lets_pass()
    assert breaker.closes_in_s == 10


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker(failures_to_open=2)
    for unwell in (True, False, True):
        breaker.record(unwell=unwell)
    assert breaker.lets_pass()


def test_after_the_cool_down_one_probe_passes() -> None:
    breaker, clock = opened()
    clock.now = 10
    assert breaker.lets_pass()
    assert not breaker.lets_pass()


def test_a_successful_probe_closes_it() -> None:
    breaker, clock = opened()
    clock.now = 10
    breaker.lets_pass()
    breaker.record(unwell=False)
    assert breaker.lets_pass()
    assert breaker.lets_pass()


def test_a_probe_that_finds_it_unwell_opens_it_for_another_cool_down() -> None:
    breaker, clock = opened()
    clock.now = 10
    breaker.lets_pass()
    breaker.record(unwell=True)
    clock.now = 19
    assert not breaker.lets_pass()
    clock.now = 20
    assert breaker.lets_pass()


def test_an_abandoned_probe_lets_the_next_one_pass() -> None:
    breaker, clock = opened()
    clock.now = 10
    breaker.lets_pass()
    breaker.abandon()
    assert breaker.lets_pass()
