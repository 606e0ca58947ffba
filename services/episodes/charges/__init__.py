"""What an episode asks of the ledger: holds before calls, true costs after."""
