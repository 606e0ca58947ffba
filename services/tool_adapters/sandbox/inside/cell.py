"""Runs the code of one call, as a notebook runs a cell; the process is the code's alone.

Nothing here protects anything: the namespaces and the filter around this process do. The
kernel limits are set here because they must hold for this process and not for its
supervisor; hard limits cannot be raised again without privileges.
"""

import ast
import resource
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Hidden, so that it never comes back as a file; in the workspace, so that it stays.
VARIABLES = ".variables.pickle"
OUT_OF_MEMORY = 77
FAILED = 1


def run(code: str, workspace: Path, limits: Mapping[str, int], *, stateful: bool) -> int:
    """Exit status: 0, the code's own, FAILED with a traceback printed, or OUT_OF_MEMORY."""
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, name), (value, value))
    scope: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    try:
        return _run(code, scope, workspace, stateful=stateful)
    except MemoryError:
        # What filled the memory lives in the scope; printing needs some of it back.
        scope.clear()
        return OUT_OF_MEMORY


def _run(code: str, scope: dict[str, Any], workspace: Path, *, stateful: bool) -> int:
    variables = workspace / VARIABLES
    if stateful:
        _load(variables, scope)
    try:
        _execute(code, scope)
    except MemoryError:
        raise
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException:  # noqa: BLE001 (the model gets to see whatever its code raised)
        _print_traceback()
        return FAILED
    finally:
        _save_figures(workspace)
        if stateful:
            _save(scope, variables)
    return 0


def _execute(code: str, scope: dict[str, Any]) -> None:
    module = ast.parse(code, "<code>")
    last = module.body.pop() if module.body and isinstance(module.body[-1], ast.Expr) else None
    exec(compile(module, "<code>", "exec"), scope)  # noqa: S102 (its purpose)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "<code>", "eval"), scope)  # noqa: S307
        if value is not None:
            print(repr(value))  # noqa: T201


def _print_traceback() -> None:
    """Prints a traceback without the frames of this file."""
    kind, error, frames = sys.exc_info()
    while frames and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    sys.stdout.flush()
    traceback.print_exception(kind, error, frames)


def _save_figures(workspace: Path) -> None:
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if pyplot else ():
        pyplot.figure(number).savefig(workspace / f"figure-{number}.png")


def _load(variables: Path, scope: dict[str, Any]) -> None:
    """Loads variables, without those that an earlier call made unreadable."""
    import cloudpickle  # type: ignore[import-untyped]  # noqa: PLC0415 (after sys.path is set)

    try:
        for name, pickled in cloudpickle.loads(variables.read_bytes()).items():
            scope[name] = cloudpickle.loads(pickled)
    except FileNotFoundError:
        return
    except Exception as error:  # noqa: BLE001 (a pickle may raise anything)
        print(f"variables of earlier calls are lost: {error!r}", file=sys.stderr)  # noqa: T201


def _save(scope: dict[str, Any], variables: Path) -> None:
    """Each variable on its own: an open file or a generator must not lose the others."""
    import cloudpickle  # noqa: PLC0415

    pickled = {}
    for name, value in scope.items():
        if not name.startswith("__"):
            try:
                pickled[name] = cloudpickle.dumps(value)
            except Exception:  # noqa: BLE001, S112 (pickling may raise anything)
                continue
    try:
        variables.unlink(missing_ok=True)
        variables.write_bytes(cloudpickle.dumps(pickled))
    except OSError as error:
        print(f"variables are not kept: {error}", file=sys.stderr)  # noqa: T201
