"""Read a view's statement: parse, name every column's table, refuse what cannot be read."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Final, NoReturn

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import OptimizeError, ParseError, TokenError
from sqlglot.optimizer.qualify import qualify
from sqlglot.tokenizer_core import Token, TokenType

from cdc.columns.values.spark_types import spark_type
from cdc.core.errors import ConfigurationError
from cdc.core.table import Table, TableName
from cdc.views.plan import TableUse
from cdc.views.statement.inlining import inline, wrap_renamed
from cdc.views.statement.statement import Qualifier, Reference, Statement
from cdc.views.statement.time_windows import expand_windows
from cdc.views.statement.using import correct_joins, mark_joins

DIALECT: Final = "spark"
DEFAULT_SCHEMA: Final = "public"
_DIALECT: Final = Dialect.get_or_raise(DIALECT)


def parse_statement(view: str, sql: str, tables: Mapping[TableName, Table]) -> Statement:
    """Parse a view's SQL over these tables; raises ConfigurationError with the place in the statement."""
    tree = parse_query(view, sql)
    known = {str(name).lower(): name for name in tables}
    if any(with_.recursive for with_ in tree.find_all(exp.With)):
        _refuse(view, "WITH RECURSIVE is not supported")
    references = _find_references(view, tree, known)
    qualifiers = _find_qualifiers(tree, known)
    expand_windows(tree)
    wrap_renamed(tree)
    mark_joins(tree)
    schema: dict[str, object] = {}
    for name in {place.table for place in references}:
        columns = {column.name: spark_type(column).simpleString() for column in tables[name].columns}
        in_schema = schema.setdefault(name.schema, {})
        assert isinstance(in_schema, dict)
        in_schema[name.table] = columns
    try:
        tree = qualify(tree, schema=schema, dialect=DIALECT, db=DEFAULT_SCHEMA, quote_identifiers=False)
    except OptimizeError as error:
        _refuse(view, str(error))
    assert isinstance(tree, exp.Query)
    correct_joins(tree)
    tree = inline(tree)
    return Statement(sql, tree, tables, _name_uses(tree, known), references, qualifiers)


def parse_query(view: str, sql: str) -> exp.Query:
    """Parse one query; raises ConfigurationError with the place of the first error."""
    try:
        trees = _DIALECT.parser().parse(_tokenize(sql), sql)
    except ParseError as error:
        first = error.errors[0]
        # some of sqlglot's reasons name its classes
        reason = "it is incomplete" if "sqlglot" in str(first["description"]) else first["description"]
        _refuse(view, f"{reason} at line {first['line']}, column {first['col']}")
    except TokenError as error:
        _refuse(view, str(error))
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        _refuse(view, "it is no single SELECT")
    return trees[0]


def _tokenize(sql: str) -> list[Token]:
    """The statement's tokens. `window` begins a clause only in `WINDOW w AS (`, else it is a name."""
    tokens = _DIALECT.tokenize(sql)
    for at, token in enumerate(tokens):
        is_clause = [each.token_type for each in tokens[at + 2 : at + 4]] == [TokenType.ALIAS, TokenType.L_PAREN]
        if token.token_type == TokenType.WINDOW and not is_clause:
            tokens[at] = Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
    return tokens


def list_tables(view: str, sql: str) -> list[TableName]:
    """The tables that a statement names, whether they exist or not."""
    return sorted({_table_name(table) for table in list_base_tables(parse_query(view, sql))})


def _refuse(view: str, reason: str) -> NoReturn:
    raise ConfigurationError(f"views.{view}: {reason}", "correct its sql") from None


def list_base_tables(tree: exp.Query) -> Iterator[exp.Table]:
    """The tables of a tree that are no common table expressions."""
    for table in tree.find_all(exp.Table):
        if table.args.get("db") or not _is_cte(table):
            yield table


def _is_cte(table: exp.Table) -> bool:
    """Whether a query around the table has a common table expression of its name."""
    around: exp.Expr | None = table.parent
    while around is not None:
        with_ = around.args.get("with_")
        if with_ and any(cte.alias.lower() == table.name.lower() for cte in with_.expressions):
            return True
        around = around.parent
    return False


def _table_name(table: exp.Table) -> TableName:
    return TableName(table.db or DEFAULT_SCHEMA, table.name)


def _find_references(view: str, tree: exp.Query, known: Mapping[str, TableName]) -> list[Reference]:
    found = list[Reference]()
    for table in list_base_tables(tree):
        name = known.get(str(_table_name(table)).lower())
        if name is None or table.catalog:
            named = ".".join(part.name for part in table.parts)
            _refuse(view, f"no table or view {named} is followed (line {table.parts[0].meta['line']})")
        found.append(replace(refer_to(table), table=name))
    return found


def refer_to(table: exp.Table) -> Reference:
    """The place of a table's name in the text."""
    first, last = table.parts[0].meta, table.parts[-1].meta
    return Reference(_table_name(table), first["start"], last["end"] + 1, bool(table.alias))


def _find_qualifiers(tree: exp.Query, known: Mapping[str, TableName]) -> list[Qualifier]:
    columns = tree.find_all(exp.Column)
    # a column of a struct looks the same: `c.address.city`
    qualified = [column for column in columns if column.db and f"{column.db}.{column.table}".lower() in known]
    return [Qualifier(column.args["db"].meta["start"], column.args["table"].meta["start"]) for column in qualified]


def _name_uses(tree: exp.Query, known: Mapping[str, TableName]) -> dict[int, TableUse]:
    uses, taken = dict[int, TableUse](), set[str]()
    for table in tree.find_all(exp.Table):
        names = (f"{table.alias_or_name}{suffix}" for suffix in _suffixes())
        alias = next(name for name in names if name not in taken)
        taken.add(alias)
        uses[id(table)] = TableUse(alias, known[str(_table_name(table)).lower()])
    return uses


def _suffixes() -> Iterator[str]:
    yield ""
    yield from (f"#{number}" for number in count(2))
