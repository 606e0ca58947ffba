"""Every alert fires for its cause and for nothing near it. `make prometheus` runs it."""

from pathlib import Path

import yaml

from chart.rendering import Json
from chart.test_monitoring import dashboards
from prometheus import promtool
from prometheus.promtool import alerts, cases, groups


def test_every_alert_has_what_fires_it_and_what_leaves_it_quiet() -> None:
    assert set(cases()) == set(alerts())
    assert all({"fires", "quiet"} <= set(case) for case in cases().values())


def test_an_alert_is_asked_after_it_may_fire() -> None:
    """An alert that is quiet because it was asked too early proves nothing."""
    for name, case in cases().items():
        waits = promtool.seconds(alerts()[name].get("for", "0s"))
        for asked in case.values():
            assert promtool.seconds(asked.get("at", promtool.ASKED_AT)) > waits, name


def test_every_alert_fires_for_its_cause_and_for_nothing_near_it(tmp_path: Path) -> None:
    promtool.check_rules(groups(), tmp_path)
    tests = [
        promtool.unit_test(name, alerts()[name], samples, fires=what != "quiet")
        for name, case in cases().items()
        for what, samples in case.items()
    ]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests}))
    promtool.run("test", "rules", str(file))


def test_promtool_finds_an_alert_that_does_not_fire(tmp_path: Path) -> None:
    """Or the test above could not fail."""
    promtool.check_rules(groups(), tmp_path)
    name, case = next(iter(cases().items()))
    wrong = promtool.unit_test(name, alerts()[name], case["fires"], fires=False)
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [wrong]}))
    try:
        promtool.run("test", "rules", str(file))
    except AssertionError as error:
        assert name in str(error)
    else:
        raise AssertionError("promtool took a firing alert for a quiet one")


def test_every_query_of_a_dashboard_parses(tmp_path: Path) -> None:
    queries = [
        target["expr"].replace("$namespace", "podium")
        for one in dashboards()
        for panel in one["panels"]
        for target in panel["targets"]
    ]
    rules: list[Json] = [
        {"record": f"dashboards:query:{number}", "expr": query}
        for number, query in enumerate(queries)
    ]
    assert len(rules) > 5
    promtool.check_rules([{"name": "dashboards", "rules": rules}], tmp_path)
