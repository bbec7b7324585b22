"""Columns that are text in the lake and something else in Postgres, where a view compares them, sorts or calculates."""
