"""Numbers of geometric types are written as Postgres writes them, and stay the same doubles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.types.geometric_types import as_postgres, double


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("(1.5,-2.0E300)", "(1.5,-2e+300)"),
        ("{1.0,2.0,3.0}", "{1,2,3}"),
        ("<(1.0E-10,1.2345678901234568E17),0.0>", "<(1e-10,1.2345678901234568e+17),0>"),
        ("(NaN,Infinity)", "(NaN,Infinity)"),
        ("(-Infinity,-0.0)", "(-Infinity,-0)"),
        ("((0.0,0.0),(1.0,1.0E15))", "((0,0),(1,1e+15))"),
        ("(1.0E-5,1.0E-4)", "(1e-05,0.0001)"),
        ("(1.0E14,123456.789)", "(100000000000000,123456.789)"),
    ],
)
def test_geometric_types_have_postgres_text(sent: str, expected: str) -> None:
    assert as_postgres(sent) == expected


@given(st.floats(allow_nan=False))
def test_text_names_the_same_double(number: float) -> None:
    assert float(double(number)) == number
