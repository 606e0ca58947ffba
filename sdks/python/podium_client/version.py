"""The version of this client."""

VERSION = "0.1.0"
