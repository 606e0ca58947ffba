"""Checks the shapes in the trainer's annotations at every call of a test.

Modules are checked that are imported while the tests are collected.
"""

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
    "podium_training.grpo.model.samples",
    "podium_training.grpo.model.tree_attention",
    "podium_training.grpo.model.trie",
    "podium_training.grpo.objective",
]

# As PEP 484 has it, an int is a float.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


hook = install_import_hook(MODULES, f"{__name__}.checked")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Ends the checked imports: a worker of Temporal asks every loader for its code.

    The hook's would cache checked code as if it were plain.
    """
    hook.uninstall()
    for name, module in sys.modules.items():
        if name.startswith(tuple(MODULES)):
            module.__loader__ = SourceFileLoader(name, str(module.__file__))
