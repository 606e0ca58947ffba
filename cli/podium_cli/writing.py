"""Files that a command writes: where it cannot, it says so in two lines."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from podium_kit.client.errors import UsageError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises UsageError when the file, or what is written beside it, cannot be."""
    require_place(path)
    try:
        yield
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise UsageError(f"cannot write {path}: {cause}", "name a file you may write") from error


def require_place(path: Path) -> None:
    """Raises UsageError where no file can be; for what is written at the end of long work."""
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder", "name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no such folder", "make it first")
