"""Tasks that others made: packages and files, read into tasks of ours."""
