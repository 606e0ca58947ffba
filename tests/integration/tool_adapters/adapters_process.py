import os
import sys
from collections.abc import Mapping
from pathlib import Path

from callers import KeyPair, write_verify_keys
from podium_kit.embedded.process import ManagedProcess


def adapters_process(
    folder: Path,
    port: int,
    registry_port: int,
    database_url: str,
    keys: KeyPair,
    settings: Mapping[str, str] | None = None,
) -> ManagedProcess:
    (folder / "signing.pem").write_text(keys.private_pem)
    needed = {
        "PORT": str(port),
        "DATABASE_URL": database_url,
        "VERIFY_KEYS_FILE": str(write_verify_keys(folder / "keys.json", [keys])),
        "TOOL_REGISTRY_TARGET": f"127.0.0.1:{registry_port}",
        "SIGNING_KEY__KEY_ID": keys.key_id,
        "SIGNING_KEY__PRIVATE_KEY_FILE": str(folder / "signing.pem"),
        "MCP_SERVERS_FOLDER": str(folder / "mcp-servers"),
    }
    environment = needed | dict(settings or {})
    return ManagedProcess(
        "tool_adapters",
        [sys.executable, "-m", "tool_adapters"],
        log_path=folder / "adapters.log",
        # Ours as well: it says where the code under test lies.
        env=os.environ | {f"TOOL_ADAPTERS_{name}": value for name, value in environment.items()},
    )
