import json
import os
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Self, TypeVar, get_args

from pydantic import BaseModel, Field, FilePath, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsError

from podium_kit.rpc.tokens import TokenSigner, TokenVerifier
from podium_kit.telemetry import TelemetrySettings


class TlsFiles(BaseModel):
    """PEM files for mutual TLS between pods; they may be renewed at any time."""

    certificate: Path = Field(description="PEM of this process's certificate")
    private_key: Path = Field(description="PEM of its key, unencrypted")
    authority: Path = Field(description="PEM of the authority that signs the peers' certificates")


class ServerSettings(BaseSettings):
    """Settings of a server: where it listens, whom it trusts and how it reports."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(description="gRPC port; 0 takes a free one")
    health_port: int | None = Field(None, description="extra plaintext port for probes")
    verify_keys_file: FilePath = Field(
        description="JSON: key id to public key PEM, or to an object of public_key and scopes"
    )
    drain_wait_s: float = Field(0.0, description="seconds between NOT_SERVING and the drain")
    drain_grace_s: float = Field(10.0, description="seconds running calls get to finish")
    open_calls_max: int = Field(
        2000,
        ge=1,
        description="calls that may be open at once, and as many streams; others are answered "
        "UNAVAILABLE at once, and when to come again",
    )
    tls: TlsFiles | None = Field(None, description="mutual TLS; plaintext when unset")
    allowed_clients: frozenset[str] | None = Field(
        None,
        description="JSON list: SPIFFE ids or DNS names of the client certificates let in; "
        "unset lets in every client of the authority",
    )
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)

    @model_validator(mode="after")
    def _clients_are_known_by_certificates(self) -> Self:
        if self.allowed_clients is not None and self.tls is None:
            raise ValueError("allowed_clients are read from certificates: set tls too")
        return self

    def token_verifier(self) -> TokenVerifier:
        keys = json.loads(self.verify_keys_file.read_text())
        limited = {name: key for name, key in keys.items() if isinstance(key, dict)}
        return TokenVerifier(
            {name: key["public_key"] if name in limited else key for name, key in keys.items()},
            {name: key["scopes"] for name, key in limited.items()},
        )


class SigningKey(BaseModel):
    """A private key for internal tokens: a PEM file and the id others know it by."""

    key_id: str = Field(description="id of the key in the services' verify_keys_file")
    private_key_file: FilePath = Field(description="PEM of the Ed25519 private key")

    def signer(self) -> TokenSigner:
        return TokenSigner(self.private_key_file.read_text(), self.key_id)


S = TypeVar("S", bound=BaseSettings)


def load_settings(kind: type[S]) -> S:
    """The settings, or exit status 2 with every missing or malformed variable named."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.stdout.write(describe_settings(kind))
        raise SystemExit(0)
    if unknown := list(_unknown_variables(kind)):
        sys.stderr.write("".join(["settings are not usable; no such setting:\n", *unknown]))
        raise SystemExit(2)
    try:
        return kind()
    except ValidationError as error:
        sys.stderr.write(_explain(kind, error))
        raise SystemExit(2) from None
    except SettingsError as error:
        # It names the field; the text that is no JSON stays in its cause, unprinted.
        sys.stderr.write(f"settings are not usable: {error}\n")
        raise SystemExit(2) from None


def describe_settings(kind: type[BaseSettings]) -> str:
    """One line per environment variable: name, default or "required", meaning."""
    prefix = kind.model_config.get("env_prefix", "")
    lines = [f"{(kind.__doc__ or '').strip()}\n\nSettings, by environment variable:\n"]
    for name, field in kind.model_fields.items():
        value = "required"
        if not field.is_required():
            value = f"default {field.get_default(call_default_factory=True)}"
        lines.append(f"  {(prefix + name).upper():44} {field.description or ''} ({value})\n")
    return "".join(lines)


def _unknown_variables(kind: type[BaseSettings]) -> Iterator[str]:
    """A line for each variable under the prefix of the settings that is none of them.

    A misspelt setting would leave its default in force, unnoticed.
    """
    prefix = kind.model_config.get("env_prefix", "").upper()
    # Longer prefixes are of other settings, or of variables that are no settings.
    others = [other for other in _prefixes() if other.startswith(prefix) and other != prefix]
    others += getattr(kind, "variables_beside", ())
    known = {name.upper() for each in (kind, *_extensions(kind)) for name in _names(each)}
    given = {name for name in os.environ if prefix and name.startswith(prefix)}
    for variable in sorted(given - {prefix + name for name in known}):
        if not variable.startswith(tuple(others)):
            close = get_close_matches(variable.removeprefix(prefix), known, 1)
            yield f"{variable}{f': do you mean {prefix}{close[0]}?' if close else ''}\n"


def _prefixes() -> Iterator[str]:
    for kind in _extensions(BaseSettings):
        yield kind.model_config.get("env_prefix", "").upper()


def _extensions(kind: type[BaseSettings]) -> Iterator[type[BaseSettings]]:
    """Settings with more fields: a command reads some of its service's."""
    for other in kind.__subclasses__():
        yield other
        yield from _extensions(other)


def _names(kind: type[BaseModel]) -> Iterator[str]:
    """Yields the names of the fields, and `outer__inner` for those of nested models."""
    for name, field in kind.model_fields.items():
        yield name
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from (f"{name}__{nested}" for nested in _names(inner))


def _explain(kind: type[BaseSettings], error: ValidationError) -> str:
    prefix = kind.model_config.get("env_prefix", "")
    lines = [
        # The input is left out: it may be a secret.
        f"{(prefix + '__'.join(str(part) for part in fault['loc'])).upper()}: {fault['msg']}\n"
        for fault in error.errors()
    ]
    return "".join(["settings are not usable; set these environment variables:\n", *lines])
