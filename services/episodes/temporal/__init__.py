"""The connection to Temporal."""
