import os
import sys
from pathlib import Path

import pytest

from integration.pages.pages import Page, Terminal

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "train-and-promote.md"
NOT_RUN = {
    ". .venv/bin/activate": "the commands are on the path already",
    "podium down                               # of the tutorials": "there is none",
    "podium train watch": "it follows until Ctrl-C; test_train.py watches",
    "podium train promote": "a gate that is not sure keeps the version from it",
    "podium audit log": "nothing was promoted",
    "podium train gate": "its status is the decision, which may be no",
    "podium train improve": "rounds of an hour; test_learning.py runs one",
}


@pytest.mark.vllm
@pytest.mark.training
@pytest.mark.timeout(5400)
def test_the_tutorial_on_training_works_as_written(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    problems = []
    with Terminal(tmp_path, environment) as terminal:
        try:
            # A reader stops where a command fails.
            problems = list(terminal.problems(Page(PAGE, NOT_RUN), "", ""))[:1]
        finally:
            terminal.type("podium down")
    assert not problems, problems[0]
    assert list((tmp_path / "policies").iterdir())
