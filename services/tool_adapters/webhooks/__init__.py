"""Events that are signed and sent to the servers of tenants (docs/adr/0037)."""
