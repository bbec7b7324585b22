"""Functions of texts. Lengths and positions count characters, of which a combined letter has several."""

from sqlglot import exp

from cdc.views.statement.dialect.expressions.casts import cast
from cdc.views.statement.dialect.expressions.literals import text_of, whole_number
from cdc.views.statement.dialect.registry import proven
from cdc.views.statement.dialect.translator import Translator
from cdc.views.statement.dialect.types import BYTES, INTEGER, TEXT
from cdc.views.statement.dialect.values import Value, require, text_literal


def _text(t: Translator, node: exp.Expr) -> Value:
    value = t.value(node)
    require(value.type == TEXT, f"of {value.type.simpleString()}")
    return value


def _joined(t: Translator, node: exp.Expr) -> Value:
    """A part of a concatenation: Spark casts it to a text."""
    value = t.value(node)
    require(value.type != BYTES, "of binary")
    return cast(value, TEXT)


@proven(exp.DPipe, "this", "expression", "safe")
def write_pipes(t: Translator, node: exp.DPipe) -> Value:
    """`x || y`."""
    return Value(f"({_joined(t, node.this).sql} || {_joined(t, node.expression).sql})", TEXT)


@proven(exp.Concat, "expressions", "safe")
def write_concat(t: Translator, node: exp.Concat) -> Value:
    """`concat`: null with a null in it. DuckDB's function passes over it, its operator does not."""
    # without this mark it is sqlglot's reading of 'it''s', where Spark sees one quote
    require(node.args.get("safe"), "two literals side by side")
    return Value(f"({' || '.join(_joined(t, part).sql for part in node.expressions)})", TEXT)


@proven(exp.ConcatWs, "expressions", "safe", "coalesce", "flatten")
def write_concat_with_separator(t: Translator, node: exp.ConcatWs) -> Value:
    """`concat_ws` of texts: nulls are left out."""
    return Value(f"concat_ws({', '.join(_text(t, part).sql for part in node.expressions)})", TEXT)


@proven(exp.Length, "this", "binary")
def write_length(t: Translator, node: exp.Length) -> Value:
    """`length`: characters of a text, bytes of a binary."""
    value = t.value(node.this)
    require(value.type in (TEXT, BYTES), f"of {value.type.simpleString()}")
    name = "length" if value.type == TEXT else "octet_length"
    return Value(f"CAST({name}({value.sql}) AS INTEGER)", INTEGER)


@proven(exp.Substring, "this", "start", "length")
def write_substring(t: Translator, node: exp.Substring) -> Value:
    """`substring(x, start, length)`: 0 is the first character, as 1 is; negative positions count from the end."""
    value, start = _text(t, node.this), whole_number(node.args.get("start"))
    size = whole_number(node.args["length"]) if node.args.get("length") else 2**31 - 1
    if start >= 0:
        return Value(f"substring({value.sql}, {max(start, 1)}, {max(size, 0)})", TEXT)
    return Value(f"spark_substring_from_end({value.sql}, {-start}, {size})", TEXT)


@proven(exp.Left, "this", "expression")
@proven(exp.Right, "this", "expression")
def write_end(t: Translator, node: exp.Left | exp.Right) -> Value:
    """`left(x, n)` and `right(x, n)`."""
    value, size = _text(t, node.this), whole_number(node.expression)
    name = "left" if isinstance(node, exp.Left) else "right"
    # DuckDB reads a negative number as all but so many
    return Value(f"{name}({value.sql}, {max(size, 0)})", TEXT)


@proven(exp.Trim, "this", "position")
def write_trim(t: Translator, node: exp.Trim) -> Value:
    """`trim`, `ltrim`, `rtrim` of blanks. DuckDB's take other spaces away, too, unless it is told which."""
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "", "trim")
    return Value(f"{name}({_text(t, node.this).sql}, ' ')", TEXT)


@proven("btrim", "this", "expressions")
def write_btrim(t: Translator, node: exp.Anonymous) -> Value:
    """`btrim(x)` of blanks."""
    require(len(node.expressions) == 1, "of other characters")
    return Value(f"trim({_text(t, node.expressions[0]).sql}, ' ')", TEXT)


@proven(exp.Replace, "this", "expression", "replacement")
def write_replace(t: Translator, node: exp.Replace) -> Value:
    """`replace(x, literal, y)`."""
    found, by = text_of(node.expression), node.args.get("replacement")
    require(found, "of an empty text")
    other = _text(t, by) if by is not None else Value("''", TEXT)
    return Value(f"replace({_text(t, node.this).sql}, {text_literal(found)}, {other.sql})", TEXT)


@proven(exp.Repeat, "this", "times")
def write_repeat(t: Translator, node: exp.Repeat) -> Value:
    """`repeat(x, n)`."""
    return Value(f"repeat({_text(t, node.this).sql}, {max(whole_number(node.args['times']), 0)})", TEXT)


@proven(exp.Pad, "this", "expression", "fill_pattern", "is_left")
def write_pad(t: Translator, node: exp.Pad) -> Value:
    """`lpad` and `rpad`; to a longer text they cut."""
    fill = text_of(node.args["fill_pattern"]) if node.args.get("fill_pattern") else " "
    require(fill, "with nothing")
    size, name = max(whole_number(node.expression), 0), "lpad" if node.args.get("is_left") else "rpad"
    return Value(f"{name}({_text(t, node.this).sql}, {size}, {text_literal(fill)})", TEXT)
