"""Checks the shapes in the trainer's annotations at every call, in the processes of tests."""

import importlib
import sys
from importlib.machinery import SourceFileLoader

import pytest
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

MODULES = [
    "podium_training.grpo.data.groups",
    "podium_training.grpo.learner",
    "podium_training.grpo.model.forward",
    "podium_training.grpo.model.grammar",
    "podium_training.grpo.model.micro_batches",
    "podium_training.grpo.model.tree_attention",
    "podium_training.grpo.model.trie",
    "podium_training.grpo.objective",
]

# As PEP 484 has it, an int is a float.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def pytest_configure(config: pytest.Config) -> None:
    """Imports them now, unless the tests run in other processes."""
    if config.getoption("numprocesses", None):
        return
    with install_import_hook(MODULES, f"{__name__}.checked"):
        for module in MODULES:
            importlib.import_module(module)
    # A worker of Temporal asks every loader for its code, and the hook's would cache checked
    # code as if it were plain.
    for name, checked in sys.modules.items():
        if name.startswith(tuple(MODULES)):
            checked.__loader__ = SourceFileLoader(name, str(checked.__file__))
