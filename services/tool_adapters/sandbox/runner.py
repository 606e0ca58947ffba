"""Runs inside the sandbox, as its only program: limits itself, then runs the code.

Nothing here protects anything: the namespaces around this process do. The kernel
limits are set here because they must hold for this process and not for the
launcher; hard limits cannot be raised again without privileges.
"""

import ast
import json
import resource
import sys
import traceback
from pathlib import Path
from typing import Any

CODE = Path("/code.py")
VARIABLES = Path("/workspace/.variables.pickle")
OUT_OF_MEMORY = 77
FAILED = 1


def main() -> int:
    """Exit status: 0, FAILED with a traceback printed, or OUT_OF_MEMORY."""
    settings = json.loads(sys.argv[1])
    for name, value in settings["limits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    sys.path[:] = [*settings["path"], *sys.path, "/workspace"]
    scope: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    try:
        return _run(CODE.read_text(), scope, stateful=settings["stateful"])
    except MemoryError:
        # What filled the memory lives in the scope; printing needs some of it back.
        scope.clear()
        return OUT_OF_MEMORY


def _run(code: str, scope: dict[str, Any], *, stateful: bool) -> int:
    if stateful:
        _load_variables(scope)
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
        _save_figures()
        if stateful:
            _save_variables(scope)
    return 0


def _execute(code: str, scope: dict[str, Any]) -> None:
    """Like a notebook cell: the value of a last expression is printed."""
    module = ast.parse(code, "<code>")
    last = module.body.pop() if module.body and isinstance(module.body[-1], ast.Expr) else None
    exec(compile(module, "<code>", "exec"), scope)  # noqa: S102 (its purpose)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "<code>", "eval"), scope)  # noqa: S307
        if value is not None:
            print(repr(value))  # noqa: T201


def _print_traceback() -> None:
    """Without the frames of this file."""
    kind, error, frames = sys.exc_info()
    while frames and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    sys.stdout.flush()
    traceback.print_exception(kind, error, frames)


def _save_figures() -> None:
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if pyplot else ():
        pyplot.figure(number).savefig(f"/workspace/figure-{number}.png")


def _load_variables(scope: dict[str, Any]) -> None:
    import cloudpickle  # type: ignore[import-untyped]  # noqa: PLC0415 (after sys.path is set)

    if VARIABLES.exists():
        for name, pickled in cloudpickle.loads(VARIABLES.read_bytes()).items():
            scope[name] = cloudpickle.loads(pickled)


def _save_variables(scope: dict[str, Any]) -> None:
    """Each variable on its own: an open file or a generator must not lose the others."""
    import cloudpickle  # noqa: PLC0415

    pickled = {}
    for name, value in scope.items():
        if not name.startswith("__"):
            try:
                pickled[name] = cloudpickle.dumps(value)
            except Exception:  # noqa: BLE001, S112 (pickling may raise anything)
                continue
    VARIABLES.write_bytes(cloudpickle.dumps(pickled))


if __name__ == "__main__":
    sys.exit(main())
