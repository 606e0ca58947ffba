import socket
import subprocess
from pathlib import Path

import pytest
from scripts import supply_chain

# In two parts, or the scan of this repository would find it here.
TOKEN = "sk_live_" + "ReTllpYQYfIZu2Jnf2lAPFjD"


def test_a_committed_credential_is_found_and_not_tried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    supply_chain.tool(supply_chain.SECRETS, "detect-secrets", "--version")
    (tmp_path / "settings.py").write_text(f'\nKEY = "{TOKEN}"\n')
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "settings.py"], cwd=tmp_path, check=True)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # Takes connections and never answers: anyone who asks a provider waits for ever.
        proxy = "http://{}:{}".format(*silent.getsockname())
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.setenv("UV_OFFLINE", "1")
        monkeypatch.setattr(supply_chain, "PATIENCE_S", 300)
        monkeypatch.chdir(tmp_path)
        found = supply_chain.secrets()
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert found == 1
    assert capsys.readouterr().out == "settings.py, line 2: Stripe Access Key\n"
