"""Postgres's types with values at their edges: what the copy and the stream have to bring alike."""

from dataclasses import dataclass

SETUP = (
    "CREATE EXTENSION hstore",
    "CREATE EXTENSION citext",
    "CREATE EXTENSION ltree",
    "CREATE EXTENSION cube",
    "CREATE TYPE mood AS ENUM ('sad', 'o k', 'it''s \"fine\"', 'ü')",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN positive AS int CHECK (value > 0)",
    "CREATE DOMAIN more AS positive CHECK (value > 1)",
    "CREATE DOMAIN amount AS numeric(10, 2)",
    "CREATE DOMAIN free_amount AS numeric CHECK (value <> 7)",
    "CREATE DOMAIN tags AS text[]",
    "CREATE DOMAIN stamp AS timestamptz",
    "CREATE DOMAIN feeling AS mood",
    "CREATE TYPE floats AS RANGE (subtype = float8)",
)


@dataclass(frozen=True, slots=True)
class Tried:
    """A type, values of it as Postgres reads them, and what a value is to be in a document, asked of Postgres.

    `shown`: an expression over the column `{}` that gives the document's text, where that is not the value's own text.
    `chosen`: the type of `source.column_types`, if one is chosen.
    """

    type: str
    values: tuple[str, ...]
    shown: str = "format('%s', {})"
    chosen: str = ""


def _tried(type: str, *values: str, shown: str = "format('%s', {})", chosen: str = "") -> Tried:
    return Tried(type, values, shown, chosen)


_CENTS = "{}::numeric(12,2)::text"
_CENTS_OF_EACH = "to_json({}::numeric(12,2)[]::text[])::text"
_ALL_BEHIND = "{}::numeric(38,38)::text"
_ISO = "to_char({}, 'HH24:MI:SS.US')"
_LARGEST = "9" * 131_072
_SHAPES_OF_BOXES = "{(1,1),(0,0);(2.5,2),(1,1)}"

KINDS: tuple[Tried, ...] = (
    _tried("boolean", "t", "f", shown="{}::text"),
    _tried("smallint", "-32768", "-1", "0", "1", "32767"),
    _tried("integer", "-2147483648", "-1", "0", "65536", "2147483647"),
    _tried("bigint", "-9223372036854775808", "0", "9223372036854775807", "9007199254740993", "-1"),
    _tried("real", "0.1", "-0", "1e-45", "3.4028235e38", "NaN", "-Infinity", "16777217", shown=""),
    _tried("double precision", "0.1", "-0", "5e-324", "1.7976931348623157e308", "NaN", "Infinity", "1e22", shown=""),
    _tried("oid", "0", "1", "2147483648", "4294967295"),
    _tried(
        "numeric", "NaN", "Infinity", "-Infinity", "0", "0.000", "-1.10", "1e400", "1e-400", "9" * 1000, "12345678901.5"
    ),
    _tried("numeric(38,10)", "-9999999999999999999999999999.9999999999", "0", "0.0000000001", "1", "10000"),
    _tried("numeric(18,18)", "-0.999999999999999999", "0.000000000000000001", "0", "0.5", "-0.000100000000000000"),
    _tried("numeric(4)", "9999", "-9999", "0", "10", "-1"),
    _tried("numeric(19,4)", "999999999999999.9999", "-0.0001", "0", "10000", "1234.5678"),
    _tried("numeric(5,-2)", "1234500", "-9999900", "0", "12345"),
    _tried("numeric(3,5)", "0.00999", "-0.00001", "0", "0.001"),
    _tried("numeric(1000,500)", "1e-500", "-" + "9" * 500, "0", "1e499", "-1.5"),
    _tried("numeric", "1", "1.0", "-1.10000", "9999999999.99", "-0.01", "0.000", shown=_CENTS, chosen="decimal(12,2)"),
    _tried("numeric", "9" * 38, "-" + "9" * 38, "0", "1.000", shown="{}::numeric(38)::text", chosen="decimal(38)"),
    _tried("numeric", "0." + "9" * 38, "-0." + "0" * 37 + "1", "0", shown=_ALL_BEHIND, chosen="decimal(38,38)"),
    _tried("numeric(5,-2)", "1234500", "-9999900", "0", "12345", shown="{}::numeric(9,1)::text", chosen="decimal(9,1)"),
    _tried("numeric(3,5)", "0.00999", "-0.00001", "0", shown="{}::numeric(9,6)::text", chosen="decimal(9,6)"),
    _tried("numeric(1000,500)", "1e-10", "-1.5", "1e27", shown="{}::numeric(38,10)::text", chosen="decimal(38,10)"),
    _tried("numeric(19,4)", "1.5", "-0.25", shown=_CENTS, chosen="decimal(12,2)"),
    _tried("amount", "1.25", "-99999999.99", shown="{}::numeric(12,4)::text", chosen="decimal(12,4)"),
    _tried("free_amount", "1", "1.0", "-9999999999.99", shown=_CENTS, chosen="decimal(12,2)"),
    _tried("numeric[]", "{1,1.0,1.000,NULL}", "{}", "{-9999999999.99}", shown=_CENTS_OF_EACH, chosen="decimal(12,2)"),
    _tried("free_amount[]", "{1,NULL,2.50}", "{}", shown=_CENTS_OF_EACH, chosen="decimal(12,2)"),
    _tried(
        "money", "$0.00", "-$0.01", "92233720368547758.07", "-92233720368547758.08", "1234.5", shown="{}::numeric::text"
    ),
    _tried(
        "text",
        "",
        " ",
        "NULL",
        "null",
        "\\",
        '"',
        "'",
        "\t\n\r",
        "🐘",
        "\u2028",
        "<b>",
        "{}",
        "ß" * 5_000,
        "\x7f",
        "e\u0301",
    ),
    _tried("varchar(5)", "", "abcde", "  x  ", "ÄÖÜßé", "🐘🐘🐘🐘🐘", "\\N"),
    _tried("varchar", "", "\\N", "\\.", "__debezium_unavailable_value", "x" * 2_500),
    _tried("char(5)", "", "ab", "abcde", " b", "é"),
    _tried('"char"', "a", "", "~", "0", " "),
    _tried("name", "x", "N" * 63, "", "a b", '"'),
    _tried("citext", "AbC", "ÄÖ", "", "İ", "NULL"),
    _tried("xml", "<a>x</a>", "<a b='1'/>", "text only", "<?xml version='1.0'?><a/>", "<a><![CDATA[<]]></a>"),
    _tried("json", "null", "1", '"x"', '{"a":  1,"a": 2}', "[1, 1.10, 1e400]", "{}", " 1 ", '{"a":\n"\\u0000"}'),
    _tried("jsonb", "null", "1.10", '"\\u00fc"', '{"b": 1, "a": [1, null]}', "123456789012345678901234567890.10", "[]"),
    _tried("jsonpath", "$.a[*]", "strict $", "$.a ? (@ > 1)", '$."x y"', "$"),
    _tried(
        "uuid",
        "00000000-0000-0000-0000-000000000000",
        "FFFFFFFF-ffff-ffff-ffff-ffffffffffff",
        "{00000000-0000-4000-8000-00000000000f}",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
    ),
    _tried(
        "bytea", "", "\\x00", "\\xdeadbeef", "\\x" + "00ff" * 3_000, shown="replace(encode({}, 'base64'), E'\\n', '')"
    ),
    _tried("date", "4713-01-01 BC", "0001-01-01", "1970-01-01", "2024-02-29", "9999-12-31", "5874897-12-31", shown=""),
    _tried("time", "00:00", "24:00", "23:59:59.999999", "12:34:56.7", "00:00:00.000001", shown=_ISO),
    _tried("time(0)", "12:34:56", "24:00", "00:00", "23:59:59", shown=_ISO),
    _tried("timetz", "00:00+15:59:59", "24:00-15:59", "12:34:56.789+05:30", "12:00Z", "23:59:59.999999-00:00:01"),
    _tried(
        "timestamp",
        "4713-01-01 BC",
        "1969-12-31 23:59:59.999999",
        "2024-02-29 12:00",
        "294246-12-31 23:59:59.999999",
        "1582-10-10",
        "0001-12-31 23:59:59 BC",
        "1970-01-01",
        shown="",
    ),
    _tried("timestamp(0)", "2024-02-29 12:00:00", "0001-01-01", "294246-12-31", "1969-12-31 23:59:59", shown=""),
    _tried("timestamp(3)", "2024-02-29 12:00:00.123", "0044-03-15 BC", "1969-12-31 23:59:59.999", shown=""),
    _tried(
        "timestamptz",
        "4713-01-02 BC",
        "1883-11-18 12:03:58-05",
        "2024-02-29 12:00+05:30",
        "294246-12-31",
        "1970-01-01Z",
        shown="",
    ),
    _tried(
        "interval",
        "0",
        "1 year 2 mons -3 days 04:05:06.789",
        "-00:00:00.000001",
        "1 day -24:00:00",
        "-178000000 years",
        "1 mon",
        "-1 year -1 mon +1 day -1:02:03.5",
        "2147483647 hours",
        "2562047788:00:54.775807",
        "-2562047788:00:54.775807",
        "10 days",
        "1:00",
        "1 year -1 mon",
    ),
    _tried(
        "point", "(1.5,-2e300)", "(NaN,Infinity)", "(0,-0)", "(1e15,123456789012345.6)", "(1e-5,0.0001)", "(0.1,1e22)"
    ),
    _tried("line", "{1,2,3}", "{-1.1,0.3,1e-7}", "{0,1,0}", "{1,0,-1e300}"),
    _tried("lseg", "[(0,0),(1,1.25)]", "[(0,0),(0,0)]", "[(-1e300,1e-300),(NaN,Infinity)]"),
    _tried("box", "(1,1),(0,0)", "(1e100,2),(-3,-4.5)", "(0,0),(1,1)", "(0.1,0.1),(0.1,0.1)"),
    _tried("path", "[(0,0),(1,1)]", "((0,0),(1,1),(2,0.5))", "((0,0))", "[(1e-5,1e15)]"),
    _tried("polygon", "((0,0),(1,1),(1,0))", "((0,0))", "((0.1,0.2),(1e22,3),(-4,1e-7),(5,5))"),
    _tried("circle", "<(0,0),1.1>", "<(1e-10,123456789012345678),0>", "<(0,0),0>", "<(-1,-1),1e300>"),
    _tried("inet", "10.0.0.1/8", "10.0.0.1", "::1", "fe80::1/64", "0.0.0.0/0", "::ffff:1.2.3.4", "255.255.255.255"),
    _tried("cidr", "10.0.0.0/8", "::/0", "0.0.0.0/0", "192.168.1.1/32", "2001:db8::/32"),
    _tried("macaddr", "08:00:2b:01:02:03", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"),
    _tried("macaddr8", "08:00:2b:01:02:03:04:05", "08:00:2b:01:02:03", "ff:ff:ff:ff:ff:ff:ff:ff"),
    _tried("bit(3)", "101", "000", "111"),
    _tried("bit(70)", "1" * 70, "0" * 70, "10" * 35),
    _tried("bit(1)", "1", "0"),
    _tried("bit varying", "", "10101", "1" * 100, "0", "00000001"),
    _tried("varbit(8)", "", "1", "00000000", "11111111"),
    _tried("tsvector", "", "a:1 b:2A", "'it''s':3", "a:1,2,16383D", "'x y' z"),
    _tried("tsquery", "a & b", "!a | 'b c'", "", "a:*", "a <-> b <2> c", "'it''s':AB"),
    _tried("int4range", "empty", "[1,5)", "(,)", "[,3]", "[2147483646,2147483647)", "[5,)"),
    _tried("int8range", "[1,9223372036854775807)", "empty", "(,)", "[-9223372036854775808,0)"),
    _tried("numrange", "[1.50,)", "(1.0,2.00]", "empty", "(,)", "[-1e100,1e-100]", "[NaN,NaN]"),
    _tried("daterange", "[2020-01-01,infinity)", "empty", "(,)", "['0044-03-15 BC',2020-01-01)".replace("'", '"')),
    _tried("tsrange", "[2020-01-01,2020-02-01 12:00:00.5)", "empty", "(,)", "[-infinity,infinity]"),
    _tried("tstzrange", "[2020-01-01 00:00+02,infinity)", "(-infinity,infinity)", "empty", "(,2020-01-01 00:00Z]"),
    _tried("floats", "[0.1,1e300]", "empty", "(-0,5e-324]", "[NaN,NaN]"),
    _tried("int4multirange", "{}", "{[1,3),[5,7)}", "{(,)}", "{[1,3),[3,5)}"),
    _tried("int8multirange", "{}", "{[1,9223372036854775807)}", "{(,1),[3,)}"),
    _tried("nummultirange", "{[1.0,2.00],(3,)}", "{}", "{[1.10,1.10]}"),
    _tried("datemultirange", "{[2020-01-01,2020-02-01)}", "{}", "{(,2020-01-01),[2021-01-01,)}"),
    _tried("tsmultirange", "{}", "{[2020-01-01,2020-02-01 12:00:00.5)}", "{[2020-01-01,infinity]}"),
    _tried("tstzmultirange", "{}", "{[2020-01-01 00:00+02,2020-02-01 00:00Z)}", "{(,)}"),
    _tried("hstore", "", "a=>1, b=>NULL", '"x y"=>"\\"q\\""', '""=>""', '"NULL"=>"NULL", ü=>🐘'),
    _tried("ltree", "", "a.b.c", "Top.A_1", ".".join(["x"] * 200)),
    _tried("lquery", "a.*{1,2}.!b", "*", "a@*%.b|c"),
    _tried("ltxtquery", "a & b*@", "!x | y"),
    _tried("cube", "(1, 2),(3, 4)", "(0.1)", "()", "(1e300, -0, 5e-324)"),
    _tried("pair", '(1,"x,y")', "(,)", '(2,"it\'s \\"q\\"")', '(,"")', "(-2147483648,NULL)"),
    _tried("mood", "sad", "o k", 'it\'s "fine"', "ü"),
    _tried("positive", "1", "2147483647", "65536"),
    _tried("more", "2", "2147483647", "65536"),
    _tried("amount", "1234.50", "-99999999.99", "0", "0.01"),
    _tried("feeling", "o k", "sad", "ü"),
    _tried("stamp", "2020-01-01 00:00:00.123456+02", "0001-01-01 00:00Z", "1969-12-31 23:59:59.999999Z", shown=""),
    _tried("pg_lsn", "0/0", "FFFFFFFF/FFFFFFFF", "0/1", "16/B374D848"),
    _tried("xid8", "0", "18446744073709551615", "9223372036854775808"),
    _tried("pg_snapshot", "1:5:2,3", "10:20:", "1:1:"),
    _tried("int2vector", "1 2 3", "", "-32768 32767"),
    _tried("oidvector", "1 2 4294967295", "", "0"),
    _tried("boolean[]", "{t,f,NULL}", "{}", "{NULL}", "{t}", shown="to_json({})::text"),
    _tried("smallint[]", "{1,-32768}", "{}", "{NULL,NULL}", "{32767}", shown="to_json({})::text"),
    _tried("integer[]", "{1,NULL,-2147483648}", "{}", "{NULL}", "{2147483647,0}", shown="to_json({})::text"),
    _tried(
        "bigint[]",
        "{9223372036854775807}",
        "{}",
        "{NULL,-9223372036854775808}",
        "{9007199254740993}",
        shown="to_json({})::text",
    ),
    _tried("real[]", "{0.1,1e-45}", "{}", "{NULL,NaN,-Infinity}", "{-0,3.4028235e38}", shown=""),
    _tried("double precision[]", "{0.1,-0,1e-300}", "{NaN,Infinity}", "{}", "{NULL,5e-324}", shown=""),
    _tried("numeric(5,2)[]", "{1.10,NULL,-999.99}", "{}", "{0.00,0.01}", shown="to_json({}::text[])::text"),
    _tried(
        "numeric[]", "{1.10,NaN,1e30}", "{}", "{Infinity,-Infinity,NULL}", "{0.000}", shown="to_json({}::text[])::text"
    ),
    _tried(
        "text[]",
        "{}",
        '{"a b",NULL,"NULL","","q\\"x\\\\y",🐘}',
        '{"{a}","a,b"}',
        '{"\n","\t"}',
        shown="to_json({})::text",
    ),
    _tried("varchar(5)[]", "{abc,NULL}", "{}", '{"NULL",""}', "{abcde}", shown="to_json({})::text"),
    _tried(
        "uuid[]",
        "{00000000-0000-4000-8000-00000000000f,NULL}",
        "{}",
        "{ffffffff-ffff-ffff-ffff-ffffffffffff}",
        shown="to_json({})::text",
    ),
    _tried("bytea[]", '{"\\\\xdead","",NULL}', "{}", '{"\\\\x00"}', shown=""),
    _tried("date[]", '{2020-01-01,"0044-03-15 BC",NULL}', "{}", "{5874897-12-31}", shown=""),
    _tried("time[]", "{24:00,12:34:56.7}", "{}", "{NULL,00:00}", shown=""),
    _tried("timetz[]", "{24:00+05:30}", "{}", "{NULL,00:00+15:59:59}", shown="to_json({}::text[])::text"),
    _tried("timestamp[]", '{"2020-01-01 00:00:00.5","0044-03-15 00:00:00 BC"}', "{}", "{NULL,294246-12-31}", shown=""),
    _tried(
        "timestamptz[]", '{"2020-01-01 00:00:00.5+02","1883-11-18 12:03:58-05"}', "{}", "{NULL,294246-12-31}", shown=""
    ),
    _tried("interval[]", '{"1 day","2 mons -00:00:00.1",NULL}', "{}", '{"1 year -1 mon"}', shown=""),
    _tried("json[]", '{"{\\"a\\":  1}",NULL}', "{}", '{"null","[1, 1.10]"}', shown="to_json({}::text[])::text"),
    _tried("jsonb[]", '{"{\\"a\\": 1.10}","[]"}', "{}", "{NULL,null}", '{"null"}', shown="to_json({}::text[])::text"),
    _tried("point[]", '{"(1,2.5)","(1e300,-0)"}', "{}", '{NULL,"(NaN,0)"}', shown="to_json({}::text[])::text"),
    _tried("box[]", _SHAPES_OF_BOXES, "{}", "{NULL}", shown=""),
    _tried("inet[]", "{10.0.0.1,::1}", "{}", "{NULL,10.0.0.1/8}", shown=""),
    _tried("money[]", '{$1.00,"-$1,234.50"}', "{}", "{NULL}", shown=""),
    _tried("int4range[]", '{"[1,3)",empty}', "{}", '{NULL,"(,)"}', shown="to_json({}::text[])::text"),
    _tried("hstore[]", '{"a=>1","b=>NULL"}', "{}", '{NULL,""}', shown="to_json({}::text[])::text"),
    _tried("citext[]", "{AbC}", "{}", '{NULL,"NULL"}', shown="to_json({}::text[])::text"),
    _tried("mood[]", '{sad,"o k",NULL}', "{}", "{ü}", shown="to_json({}::text[])::text"),
    _tried("positive[]", "{1,2}", "{}", "{NULL,2147483647}", shown="to_json({})::text"),
    _tried("pair[]", '{"(1,x)","(2,\\"y,z\\")"}', "{}", '{NULL,"(,)"}', shown="to_json({}::text[])::text"),
    _tried("tags", '{a,"b c",NULL}', "{}", '{"NULL",""}', shown="to_json({})::text"),
    _tried("bit(2)[]", "{01,11}", "{}", "{NULL,00}", shown="to_json({}::text[])::text"),
)
"""Those of Postgres and of the extensions that it comes with.

Where `shown` is empty, only the two ways are compared, with each other and with what `cdc verify` reads."""

FURTHER_EXTENSIONS = ("vector", "postgis")
_EWKB = "replace(encode(ST_AsEWKB({}::geometry), 'base64'), E'\\n', '')"
FURTHER_KINDS = (
    _tried("vector(3)", "[1,2.5,-3e+10]", "[0,-0,1e-40]", shown=""),
    _tried("vector", "[0.1]", "[1,2]", shown=""),
    _tried("halfvec(2)", "[1,65504]", "[-0.1,0]", shown=""),
    _tried("sparsevec(5)", "{1:1.5,3:-2}/5", "{}/5", shown=""),
    _tried("sparsevec(20000)", "{1:1.5,20000:-2}/20000"),
    _tried("vector", "[0.1,1e-40]", chosen="text"),
    _tried("vector[]", '{"[1,2]","[3]",NULL}', shown="to_json({}::text[])::text"),
    _tried("embedding", "[1,2]", shown=""),
    _tried(
        "geometry", "POINT(1 2)", "POLYGON((0 0,1 0,1 1.5,0 0))", "POINT EMPTY", "SRID=4326;POINT Z(1 2 3)", shown=_EWKB
    ),
    _tried("geometry(Point,4326)", "SRID=4326;POINT(-71.064544 42.28787)", shown=_EWKB),
    _tried("geometry", "CIRCULARSTRING(0 0,1 1,2 0)", "POINT ZM(1 2 3 4)", shown=_EWKB),
    _tried("geography", "POINT(-110 30)", "LINESTRING(0 0,1 1)", shown=_EWKB),
    _tried("geometry(Point,4326)", "SRID=4326;POINT(1 2)", chosen="text"),
    _tried("box2d", "BOX(1 2,3 4.5)"),
    _tried("box3d", "BOX3D(1 2 3,4 5 6.5)"),
    _tried("geometry[]", "{0101000000000000000000F03F0000000000000040:NULL}", shown="to_json({}::text[])::text"),
)
"""Those of extensions that a server may have: `CDC_TEST_POSTGRES` names one."""
