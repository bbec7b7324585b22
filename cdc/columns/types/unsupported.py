"""Values of Postgres that followers cannot hold."""


class UnsupportedValueError(ValueError):
    """A column has a value that no follower can hold; the text names its sort, never the value itself."""
