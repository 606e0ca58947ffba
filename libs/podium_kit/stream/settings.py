from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FilePath, model_validator

SCRAM = "SCRAM-SHA-512"


class KafkaSettings(BaseModel):
    """Servers, and how both sides prove who they are; part of a service's settings.

    SSL is mutual TLS with a client certificate, SASL_SSL is TLS with a
    password, proved by SCRAM-SHA-512. Certificates are read at every connection, so that renewed
    ones are taken up; the password is read when a client is made.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap: str = Field(min_length=1, description="Kafka bootstrap servers, host:port")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL"] = Field(
        "PLAINTEXT", description="SSL: mutual TLS; SASL_SSL: TLS with a SCRAM password"
    )
    authority: FilePath | None = Field(
        None, description="PEM of the brokers' authority; unset trusts the system's"
    )
    certificate: FilePath | None = Field(None, description="PEM of the client's certificate")
    private_key: FilePath | None = Field(None, description="PEM of its key, unencrypted")
    username: str | None = Field(None, description="SASL_SSL: who connects")
    password_file: FilePath | None = Field(None, description="SASL_SSL: file of the password")

    @model_validator(mode="after")
    def _what_is_named_is_used(self) -> Self:
        """A file that goes unused would mean less security than was asked for."""
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key belong together: name both or none")
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file belong together: name both or none")
        if self.security_protocol == "PLAINTEXT" and (self.authority or self.certificate):
            raise ValueError("security_protocol PLAINTEXT uses no certificates: say SSL")
        if (self.security_protocol == "SASL_SSL") != (self.username is not None):
            raise ValueError("username and password_file go with security_protocol SASL_SSL")
        return self

    def reading(self) -> dict[str, Any]:
        """Keyword arguments of a consumer that goes by offsets, and commits none."""
        # Incremental answers leave out partitions without news; see `gave_all`.
        return {
            **self.arguments(),
            "enable_auto_commit": False,
            "enable_incremental_fetch_sessions": False,
        }

    def arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.security_protocol,
        }
        files = {
            "ssl_cafile": self.authority,
            "ssl_certfile": self.certificate,
            "ssl_keyfile": self.private_key,
        }
        arguments |= {name: str(path) for name, path in files.items() if path is not None}
        if self.password_file is not None:
            arguments |= {
                "sasl_mechanism": SCRAM,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password_file.read_text().strip(),
            }
        return arguments
