"""Pytest plugin: a run in which a test was skipped, or none ran, has failed."""

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    # Under xdist only the controller reports.
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    unproven = [
        report
        for outcome in ("skipped", "xfailed", "xpassed")
        for report in reporter.stats.get(outcome, [])
    ]
    if unproven and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"\n{len(unproven)} tests were skipped: a skipped test proves nothing")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
