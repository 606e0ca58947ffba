"""What an operation changes: pure decisions over the rows it read, drafted as rows to write."""
