"""Wrong settings end the program with status 2, name the variable, and print no value."""

import json
from pathlib import Path

import pytest
from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from callers import make_identity, make_key_pair, write_verify_keys
from podium_kit.rpc.settings import ServerSettings, load_settings


class Settings(ServerSettings):
    """The bakery: loaves and rolls."""

    model_config = SettingsConfigDict(env_prefix="BAKERY_", env_nested_delimiter="__", frozen=True)

    oven_key: SecretStr = Field(min_length=8, description="key of the oven")


class ShopSettings(ServerSettings):
    """Another program, whose prefix begins as ours does."""

    model_config = SettingsConfigDict(env_prefix="BAKERY_SHOP_")


class DeliverySettings(Settings):
    """More settings under the same prefix."""

    vans: int = 0


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Everything the bakery needs."""
    keys = write_verify_keys(tmp_path / "keys.json", [make_key_pair()])
    monkeypatch.setattr("sys.argv", ["bakery"])
    monkeypatch.setenv("BAKERY_PORT", "7001")
    monkeypatch.setenv("BAKERY_VERIFY_KEYS_FILE", str(keys))
    monkeypatch.setenv("BAKERY_OVEN_KEY", "a-good-secret")
    return monkeypatch


def rejection(capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        load_settings(Settings)
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


@pytest.mark.usefixtures("environment")
def test_complete_environment_makes_settings() -> None:
    settings = load_settings(Settings)
    assert (settings.port, settings.host, settings.health_port) == (7001, "127.0.0.1", None)
    assert settings.oven_key.get_secret_value() == "a-good-secret"


@pytest.mark.parametrize("name", ["BAKERY_PORT", "BAKERY_VERIFY_KEYS_FILE", "BAKERY_OVEN_KEY"])
def test_missing_variable_is_named(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    environment.delenv(name)
    assert f"{name}: Field required" in rejection(capsys)


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("BAKERY_DRAIN_GRACE", "do you mean BAKERY_DRAIN_GRACE_S?"),
        ("BAKERY_TELEMETRY__LOGLEVEL", "do you mean BAKERY_TELEMETRY__LOG_LEVEL?"),
        ("BAKERY_PORT__MIN", "do you mean BAKERY_PORT?"),
        ("BAKERY_CONCURRENCY_PER_KEY", ""),
    ],
)
def test_a_setting_that_does_not_exist_stops_the_start(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, fix: str
) -> None:
    environment.setenv(name, "5")
    [said] = [line for line in rejection(capsys).splitlines() if name in line]
    assert said == (f"{name}: {fix}" if fix else name)


@pytest.mark.usefixtures("environment")
def test_settings_of_another_program_and_of_an_extension_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BAKERY_SHOP_DOORS", "2")
    monkeypatch.setenv("BAKERY_VANS", "3")
    assert load_settings(Settings).port == 7001


def test_every_missing_variable_is_named_at_once(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.delenv("BAKERY_PORT")
    environment.delenv("BAKERY_OVEN_KEY")
    said = rejection(capsys)
    assert "BAKERY_PORT:" in said
    assert "BAKERY_OVEN_KEY:" in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BAKERY_OVEN_KEY", "zebra"),
        ("BAKERY_PORT", "zebra"),
        ("BAKERY_VERIFY_KEYS_FILE", "/zebra/keys.json"),
        ("BAKERY_TELEMETRY__MODE", "zebra"),
        ("BAKERY_TELEMETRY__LOG_LEVEL", "zebra"),
    ],
)
def test_malformed_value_is_named_and_not_printed(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    environment.setenv(name, value)
    said = rejection(capsys)
    assert f"{name}:" in said
    assert "zebra" not in said


@pytest.mark.parametrize("field", ["tls", "telemetry"])
def test_text_where_json_belongs_is_named_and_not_printed(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    environment.setenv(f"BAKERY_{field.upper()}", "{zebra")
    said = rejection(capsys)
    assert field in said.lower()
    assert "zebra" not in said


def test_incomplete_tls_never_means_plaintext(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.setenv("BAKERY_TLS__CERTIFICATE", "certificate.pem")
    assert "BAKERY_TLS__PRIVATE_KEY: Field required" in rejection(capsys)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_variable_without_reading_any(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    monkeypatch.setattr("sys.argv", ["bakery", flag])
    with pytest.raises(SystemExit) as ended:
        load_settings(Settings)
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "The bakery: loaves and rolls." in printed
    lines = {line.split()[0]: line for line in printed.splitlines() if "BAKERY_" in line}
    assert set(lines) == {f"BAKERY_{name}".upper() for name in Settings.model_fields}
    assert "key of the oven (required)" in lines["BAKERY_OVEN_KEY"]
    assert "(default 127.0.0.1)" in lines["BAKERY_HOST"]


def test_key_file_names_whose_tokens_are_verified(tmp_path: Path) -> None:
    known, stranger = make_key_pair("known"), make_key_pair("stranger")
    path = write_verify_keys(tmp_path / "keys.json", [known])
    assert set(json.loads(path.read_text())) == {"known"}
    verifier = ServerSettings(port=0, verify_keys_file=path).token_verifier()
    assert verifier.verify(known.signer().sign(make_identity())) == make_identity()
    with pytest.raises(Exception, match="not valid"):
        verifier.verify(stranger.signer().sign(make_identity()))
