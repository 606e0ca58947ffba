import pytest
from typer.testing import CliRunner

from podium_cli.app import app
from podium_cli.inputs import (
    month_bounds,
    parse_labels,
    parse_money,
    parse_seconds,
    parse_start,
    parse_time,
)
from podium_kit.client.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5s", 1.5), ("5m", 300), ("2 min", 120), ("1h", 3600)]
)
def test_a_length_of_time_has_a_unit_or_is_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 weeks", "-3s", "1h30"])
def test_other_lengths_of_time_are_rejected_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as rejected:
        parse_seconds(text)
    assert "90s" in rejected.value.fix


@pytest.mark.parametrize("text", ["9999999d", f"{'9' * 400}d"])
def test_a_length_of_time_that_no_calendar_holds_is_rejected(text: str) -> None:
    for parse in (parse_seconds, parse_start):
        with pytest.raises(UsageError, match="too long") as rejected:
            parse(text)
        assert "36500d" in rejected.value.fix


@pytest.mark.parametrize(
    ("text", "shown"), [("0.05", "0.05 USD"), ("$2", "2 USD"), ("1.5 eur", "1.5 EUR")]
)
def test_money_is_dollars_unless_a_currency_is_named(text: str, shown: str) -> None:
    money = parse_money(text)
    assert f"{money.amount} {money.currency_code}" == shown


@pytest.mark.parametrize("text", ["", "much", "0", "-1", "1 dollars", "1e3"])
def test_other_amounts_are_rejected(text: str) -> None:
    with pytest.raises(UsageError):
        parse_money(text)


def test_labels_keep_what_follows_the_first_equals_sign() -> None:
    assert parse_labels(["team=search", "query=a=b"]) == {"team": "search", "query": "a=b"}


@pytest.mark.parametrize("pair", ["team", "=search"])
def test_a_label_without_name_or_value_is_rejected(pair: str) -> None:
    with pytest.raises(UsageError):
        parse_labels([pair])


@pytest.mark.parametrize("text", ["0000-01", "0999-12", "9999-12", "2026-13", "٢٠٢٦-10"])
def test_a_month_that_no_report_is_about_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is no month"):
        month_bounds(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59-05:00", "soon"])
def test_a_time_that_no_calendar_holds_is_rejected(text: str) -> None:
    for parse in (parse_time, parse_start):
        with pytest.raises(UsageError, match="is not a time"):
            parse(text)


def test_an_early_year_has_four_digits() -> None:
    assert parse_time("0999-03-01T12:00Z") == "0999-03-01T12:00:00.000000Z"


def test_an_empty_start_is_the_platforms_own() -> None:
    nowhere = ["--url", "http://127.0.0.1:1", "--api-key", "key"]
    ended = CliRunner().invoke(app, ["policies", "try", "balanced", "--since", "", *nowhere])
    assert ended.stderr.startswith("error: no gateway answers")
