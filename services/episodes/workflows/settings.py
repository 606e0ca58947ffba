from typing import Self

from pydantic import BaseModel, ConfigDict, Field, FilePath, SecretStr, model_validator


class TemporalSettings(BaseModel):
    """TLS, credentials and keys; plaintext without any when everything is unset."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tls: bool = Field(False, description="whether Temporal is spoken to over TLS")
    authority: FilePath | None = Field(
        None, description="PEM of the frontend's authority; unset trusts the system's"
    )
    certificate: FilePath | None = Field(None, description="PEM of the client's certificate")
    private_key: FilePath | None = Field(None, description="PEM of its key, unencrypted")
    server_name: str | None = Field(
        None, description="name in the frontend's certificate; unset takes the target's host"
    )
    api_key: SecretStr | None = Field(None, description="API key, as Temporal Cloud gives them")
    payload_keys_file: FilePath | None = Field(
        None,
        description="keys that encrypt what histories hold, a line each: an id and 32 bytes as "
        "base64; the last one encrypts, all decrypt. Unset encrypts nothing",
    )

    @model_validator(mode="after")
    def _what_is_named_is_used(self) -> Self:
        """A secret must never leave in plaintext, and half a key pair proves nothing."""
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key belong together: name both or none")
        needs_tls = (self.authority, self.certificate, self.server_name, self.api_key)
        if not self.tls and any(value is not None for value in needs_tls):
            raise ValueError("certificates, server_name and api_key are used over TLS: set tls")
        return self
