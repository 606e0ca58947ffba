"""What policies have read: the input and output of calls, and answers (docs/adr/0070)."""
