"""Providers' invoices, matched against the ledger's entries."""
