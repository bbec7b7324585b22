"""A table with a column of every kind, and rows at the edges of what Postgres has."""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.types.spark_types import spark_type
from cdc.core.table import Column, Kind, Table, TableName

_FIELDS = (
    Column("n", Kind.BIGINT),
    Column("at", Kind.TIMESTAMPTZ),
    Column("total", Kind.DECIMAL, 38, 10),
    Column("texts", Kind.TEXT, array=True),
    Column("deep", Kind.STRUCT, fields=(Column("data", Kind.BYTES), Column("day", Kind.DATE))),
)
"""Of a nested document, as a view has it."""
EVERY_KIND = Table(
    TableName("public", "Every Kind"),
    (
        Column("id", Kind.BIGINT),
        *(Column(f"a {kind}", kind, 38, 10) for kind in Kind if kind is not Kind.STRUCT),
        Column("a place", Kind.GEOMETRY, type="public.geometry(Point,4326)"),
        Column("an area", Kind.GEOMETRY, type="public.geography(Geometry,4326)"),
        Column("a struct", Kind.STRUCT, fields=_FIELDS),
        Column("structs", Kind.STRUCT, array=True, fields=_FIELDS),
        Column("as decimal", Kind.DECIMAL, 12, 2, chosen="decimal(12,2)"),
        Column("as decimals", Kind.DECIMAL, 12, 2, array=True, chosen="decimal(12,2)"),
    ),
    ("id", "a text"),
)

_NESTED = """named_struct('n', 9007199254740993, 'at', timestamp'1883-11-18 12:34:56.123456Z',
    'total', cast(1234567890123456789012345678.0123456789BD AS decimal(38, 10)),
    'texts', array('a', null, '\U0001f418'),
    'deep', named_struct('data', x'00ff', 'day', date'-0044-03-15'))"""
_EMPTY = """named_struct('n', null, 'at', null, 'total', null, 'texts', array(), 'deep', null)"""
_EXPRESSIONS = [
    {
        "a struct": _NESTED,
        "structs": f"array({_NESTED}, null, {_EMPTY})",
        "as decimal": "9999999999.99",
        "as decimals": "array(1, null, -9999999999.99)",
    },
    {"a struct": _EMPTY, "structs": "array()", "as decimal": "-0.01", "as decimals": "array()"},
    {"a struct": _NESTED, "structs": f"array({_EMPTY})", "as decimal": "0", "as decimals": "array(null)"},
    {},
]
"""Values of structs and of chosen types, in Spark's SQL, row by row."""

_POINT: Final = bytes.fromhex("0101000020e6100000000000000000f03f0000000000000040")
_EMPTY_POINT: Final = bytes.fromhex("0101000000000000000000f87f000000000000f87f")
_ARC: Final = bytes.fromhex("010800000003000000" + "00" * 16 + "000000000000f03f" * 2 + "0000000000000040" + "00" * 8)
"""A circular string, which GeoJSON does not have."""

_USUAL: Final[dict[Kind, Any]] = {
    **dict.fromkeys(Kind, "usual"),
    Kind.BOOLEAN: "true",
    Kind.SMALLINT: "-32768",
    Kind.INTEGER: "2147483647",
    Kind.BIGINT: "-9223372036854775808",
    Kind.OID: "4294967295",
    Kind.INTERVAL: "P1Y2M-3DT4H5M6.5S",
    Kind.GEOMETRIC: "(1,2.5)",
    Kind.REAL: "0.1",
    Kind.DOUBLE: "2.718281828459045",
    Kind.DECIMAL: "1234567890123456789012345678.0123456789",
    Kind.NUMERIC: "123456789012345678901234567890.12345678901234567890",
    Kind.TEXT: '  Ärger "quoted" \\ \t\n 🐘 \u2028 </script>',
    Kind.JSON: '{"b":  [1, null, {"c": 1.10}], "a": "x" }',
    Kind.UUID: "00000000-0000-4000-8000-00000000000f",
    Kind.BYTES: "\x00binary\x7f",
    Kind.VECTOR: [0.1, -0.0, 3e38],
    Kind.GEOMETRY: _POINT,
    Kind.DATE: "2024-02-29",
    Kind.TIME: "23:59:59.999999",
    Kind.TIMESTAMP: "2024-02-29 12:34:56.123456",
    Kind.TIMESTAMPTZ: "1883-11-18 12:34:56.123456Z",
}
_EDGES = {
    **_USUAL,
    Kind.BOOLEAN: "false",
    Kind.REAL: "NaN",
    Kind.DOUBLE: "-Infinity",
    Kind.DECIMAL: "-0.0000000001",
    Kind.NUMERIC: "NaN",
    Kind.TEXT: "",
    Kind.JSON: "[1, 2.0]",
    Kind.BYTES: "",
    Kind.VECTOR: [1e-45],
    Kind.GEOMETRY: _EMPTY_POINT,
    Kind.DATE: "-0044-03-15",
    Kind.TIMESTAMP: "+12024-02-29 12:34:56",
    Kind.TIMESTAMPTZ: "-0044-03-15 00:00:00.000001Z",
}
_LONG = {**_USUAL, Kind.TEXT: "ß" * 40_000, Kind.JSON: '"scalar"', Kind.NUMERIC: "9" * 400, Kind.GEOMETRY: _ARC}
_NULLS = {Kind.TEXT: "the key is not null"}


def every_kind_rows(spark: SparkSession) -> DataFrame:
    """Four rows: usual values, edges, long ones, and nulls wherever they can be."""
    frames = [_row(spark, number, texts) for number, texts in enumerate((_USUAL, _EDGES, _LONG, _NULLS))]
    return frames[0].unionAll(frames[1]).unionAll(frames[2]).unionAll(frames[3])


def _row(spark: SparkSession, number: int, texts: dict[Kind, Any]) -> DataFrame:
    nested = _EXPRESSIONS[number]
    columns = [
        (F.expr(nested.get(column.name, "null")) if column.fields or column.chosen else F.lit(texts.get(column.kind)))
        .cast(spark_type(column))
        .alias(column.name)
        for column in EVERY_KIND.columns[1:]
    ]
    return spark.range(number, number + 1).select("id", *columns)
