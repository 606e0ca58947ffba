"""Prompts: layouts, section budgets and the listing of tools."""
