"""What Postgres has and followers cannot hold."""


class UnsupportedValueError(ValueError):
    """A value of a column that no follower can hold; says what it is, and never the value itself."""
