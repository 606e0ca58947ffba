"""Says at the top of a run what it proves."""

import pytest

from chart import crd_schemas


def pytest_report_header(config: pytest.Config) -> str:
    if crd_schemas.available():
        return f"chart: custom resources are validated against {crd_schemas.FOLDER}"
    return (
        "chart: CUSTOM RESOURCES ARE NOT VALIDATED, there are no CRDs in "
        f"{crd_schemas.FOLDER}: set PODIUM_CRDS to a folder of them"
    )


# Not a skip: a run without CRDs has fewer tests, and its first lines say so.
collect_ignore = [] if crd_schemas.available() else ["test_custom_kinds.py"]
