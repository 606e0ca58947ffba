"""Events of episodes, sent to the servers of their tenants (docs/adr/0037)."""
