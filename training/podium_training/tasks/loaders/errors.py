from collections.abc import Sequence

FAULTS_SHOWN_MAX = 5


class UnreadableSource(ValueError):
    """A source gives no tasks: the cause, and what fixes it."""

    def __init__(self, cause: str, fix: str) -> None:
        super().__init__(f"{cause}; {fix}")
        self.cause = cause
        self.fix = fix


class PackageMissing(UnreadableSource):
    """A package that only some need is not installed; the fix is the command that installs it."""

    def __init__(self, package: str, command: str) -> None:
        super().__init__(f"the package {package} is not installed", f"run `{command}`")


class UnknownFamily(UnreadableSource):
    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no family {name!r}", f"use {', '.join(known)}")


class BadLines(UnreadableSource):
    """Lines of a file that are no tasks, each with its number and fault."""

    def __init__(self, source: str, faults: Sequence[tuple[int, str]], fix: str) -> None:
        shown = "\n".join(f"line {number}: {fault}" for number, fault in faults[:FAULTS_SHOWN_MAX])
        more = len(faults) - FAULTS_SHOWN_MAX
        rest = f"\nand {more} more" if more > 0 else ""
        super().__init__(f"{source} has {len(faults)} bad lines\n{shown}{rest}", fix)
