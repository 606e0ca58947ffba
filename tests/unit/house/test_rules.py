import ast
import re
from collections import Counter
from pathlib import PurePath

from unit.house.source_files import (
    ROOT,
    calls,
    imported_packages,
    is_python,
    product_files,
    service_files,
    tracked_files,
    tree,
)

LINES_MAX, TEST_LINES_MAX = 400, 600
FOLDER_FILES_MAX = 20
VAGUE_NAMES = {"utils", "helpers", "misc", "common"}
EDGE_FILES = re.compile(
    r".*/((servicer|convert|server|clients|interceptors|channel)(_\w+)?|tool_adapters/grpc/\w+)\.py"
)
# The step log stores contract messages as they are (docs/adr/0009), so what works on it reads
# them, and an episode's activities are its clients; the workflow, the models and the stores of
# the service still know nothing of the wire.
STEP_LOG_FILES = re.compile(
    r".*/episodes/((execution|spending|admission)/\w+|attachments/(checks|reading)|direct_calls/(call|charging|executor|service)"
    r"|step_log/(log|running_episode)|publication/(records|trajectory)|workflows/search_attributes|episodes/service)\.py"
)
STORE_FILES = re.compile(r"(store(_\w+)?|server|worker)\.py")
DATABASE_PACKAGES = {"sqlalchemy", "asyncpg", "psycopg", "alembic"}
WIRE_PACKAGES = {"grpc", "podium"}
NONDETERMINISTIC = re.compile(r"(^|\.)(uuid4|uuid1|uuid7|utcnow|urandom)$|^datetime\.now$|^time\.")
SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM)\b", re.DOTALL
)
REPLAYED_FILES = ("_workflow.py", "/payloads.py", "/outcomes.py", "/retry_policies.py")
MIGRATION = re.compile(r"services/\w+/migrations/versions/\d{4}")
# Turns unexpected errors into "internal error".
INTERCEPTORS = {"libs/podium_kit/rpc/interceptors.py", "services/gateway/http/request_log.py"}
BROAD_EXCEPT_WITH_REASON = re.compile(r"except .*#.*BLE001(, \w+)*\W+\w+ \w+")
MACHINE_PATHS = re.compile(r"(?<![\w.}\-])/(?:root|home/\w+|Users/\w+|work)/\w")
REGISTRY_HOSTS = re.compile(
    r"(pypi|pythonhosted|npmjs|yarnpkg|deb\.debian|proxy\.golang)\.(org|com|net)", re.IGNORECASE
)


def test_a_servicer_raises_domain_errors_and_never_aborts() -> None:
    found = [
        f"{path}:{call.lineno}"
        for path in service_files()
        for name, call in calls(path)
        if name.endswith("context.abort")
    ]
    assert not found, f"raise a DomainError, podium_kit.rpc picks the status: {found}"


def test_workflow_code_can_be_replayed() -> None:
    found = [
        f"{path}:{call.lineno} {name}"
        for path in service_files()
        if path.endswith(REPLAYED_FILES)
        for name, call in calls(path)
        if NONDETERMINISTIC.search(name) and not name.startswith("workflow.")
    ]
    assert not found, f"use workflow.now(), workflow.uuid4() or an id made by the caller: {found}"


def test_only_edges_speak_grpc_and_the_wire() -> None:
    found = [
        f"{path}:{line} imports {package}"
        for path in service_files()
        if not (EDGE_FILES.fullmatch(path) or STEP_LOG_FILES.fullmatch(path))
        for package, line in imported_packages(path)
        if package in WIRE_PACKAGES
    ]
    assert not found, f"convert at the edge (servicer, convert, server, clients): {found}"


def test_only_stores_speak_sql() -> None:
    # What a tool asks DuckDB is the tool's work, not a service's state.
    outside = [
        path
        for path in service_files()
        if not STORE_FILES.fullmatch(PurePath(path).name)
        and "duckdb" not in {package for package, _ in imported_packages(path)}
    ]
    imports = [
        f"{path}:{line} imports {package}"
        for path in outside
        for package, line in imported_packages(path)
        if package in DATABASE_PACKAGES
    ]
    statements = [
        f"{path}:{node.lineno} holds a statement"
        for path in outside
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.search(node.value)
    ]
    assert not imports + statements, f"move it to a store_*.py: {imports + statements}"


def test_the_migrations_of_a_service_are_one_line() -> None:
    found = Counter(
        match.group() for path in tracked_files() if (match := MIGRATION.match(path)) is not None
    )
    twice = [migration for migration, count in found.items() if count > 1]
    assert found
    assert not twice, f"another change took the number: take the next, and revise after it: {twice}"


def test_files_are_named_by_their_noun() -> None:
    found = [
        path for path in tracked_files() if PurePath(path).stem in {"utils", "helpers", "misc"}
    ]
    assert not found, f"name the file by what it computes: {found}"


def test_no_file_has_two_reasons_to_change() -> None:
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path in python_files()}
    found = {
        path: length
        for path, length in lengths.items()
        if length > (TEST_LINES_MAX if path.startswith("tests/") else LINES_MAX)
    }
    assert not found, (
        f"split by use case, {LINES_MAX} lines at most, {TEST_LINES_MAX} in tests: {found}"
    )


def test_every_service_can_be_read_about() -> None:
    services = {path.split("/")[1] for path in service_files()}
    missing = {f"services/{name}/README.md" for name in services} - set(tracked_files())
    assert not missing, f"every service has a README: {sorted(missing)}"


def test_no_file_knows_the_machine_or_a_registry() -> None:
    found = [
        f"{path}: {match.group()}"
        for path in tracked_files()
        for pattern in (MACHINE_PATHS, REGISTRY_HOSTS)
        for match in pattern.finditer((ROOT / path).read_bytes().decode(errors="ignore"))
    ]
    assert not found, f"read it from settings, or leave it to the installer: {found}"


def test_folders_of_the_product_are_short() -> None:
    files = [PurePath(path) for path in product_files() if not path.endswith("__init__.py")]
    folders = Counter(str(path.parent) for path in files)
    found = {folder: count for folder, count in folders.items() if count > FOLDER_FILES_MAX}
    assert not found, f"group by purpose, {FOLDER_FILES_MAX} files at most: {found}"


def test_exceptions_are_caught_by_name_or_with_a_reason() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in product_files()
        if path not in INTERCEPTORS
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler) and is_broad(node) and not reraises(node)
        if not BROAD_EXCEPT_WITH_REASON.search(line_of(path, node.lineno))
    ]
    assert not found, f"catch what you can fix, or say on its line what must survive: {found}"


def is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return {"Exception", "BaseException"} & {
        node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)
    } != set()


def line_of(path: str, number: int) -> str:
    return (ROOT / path).read_text().splitlines()[number - 1]


def reraises(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(statement, ast.Raise) for statement in handler.body)


def python_files() -> list[str]:
    return [path for path in tracked_files() if is_python(path)]


def test_no_schema_is_checked_by_a_validator_that_fetches() -> None:
    found = [
        f"{path}:{call.lineno}"
        for path in product_files()
        if path != "libs/podium_kit/json_schemas/validators.py"
        for name, call in calls(path)
        if re.search(r"(Draft\w+Validator|jsonschema\.validate)$", name)
    ]
    assert not found, f"podium_kit.json_schemas.validators opens no URL and no file: {found}"
