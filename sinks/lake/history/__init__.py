"""Histories: every committed version of a table's rows, in a Delta table of its own beside it."""
