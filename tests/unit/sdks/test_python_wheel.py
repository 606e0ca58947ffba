import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "sdks" / "python"
BYTES_MAX = 300_000
# anyio comes with httpx, pydantic_core with pydantic.
ALLOWED = {"podium_client", "httpx", "anyio", "pydantic", "pydantic_core"}


def test_the_wheel_is_small_and_holds_the_client_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=CLIENT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("podium_client-*.whl")
    assert wheel.stat().st_size < BYTES_MAX
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        needs = [
            line.split()[1]
            for line in archive.read(metadata).decode().splitlines()
            if line.startswith("Requires-Dist:")
        ]
    assert "podium_client/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"podium_client"}
    assert {re.split("[<>=]", need)[0] for need in needs} == {"httpx", "pydantic"}


def test_the_client_imports_no_part_of_the_platform() -> None:
    found = {
        imported.split(".")[0]
        for path in CLIENT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for imported in _imported(node)
    }
    assert found - set(sys.stdlib_module_names) <= ALLOWED


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
