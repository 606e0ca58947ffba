import os
import tempfile
from pathlib import Path

READABLE_BY_ALL = 0o644


def replace_text(path: Path, text: str) -> None:
    """Replaces the file atomically: readers see the old text or the new one, never a mix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(prefix=f".{path.stem}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            # Trainer, engines and services run as different users.
            os.fchmod(file.fileno(), READABLE_BY_ALL)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
