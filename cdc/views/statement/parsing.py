"""Read a view's statement: parse, name every column's table, refuse what cannot be read."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Final, NoReturn

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import OptimizeError, ParseError, TokenError
from sqlglot.optimizer.qualify import qualify
from sqlglot.tokenizer_core import Token, TokenType

from cdc.columns.types.spark_types import spark_type
from cdc.core.errors import ConfigurationError
from cdc.core.table import Table, TableName
from cdc.views.statement.entrance.admission import Refused, admit, find_variables, refuse
from cdc.views.statement.inlining import TooManyCopiesError, inline, wrap_renamed
from cdc.views.statement.normal_form import normalize
from cdc.views.statement.statement import Qualifier, Reference, Statement
from cdc.views.statement.time_windows import expand_windows
from cdc.views.statement.tree.build import build_tree
from cdc.views.statement.tree.spelling import name_output, note_names
from cdc.views.statement.tree.stars import find_stars
from cdc.views.statement.using import correct_joins, mark_joins

_LOG = logging.getLogger(__name__)
DIALECT: Final = "spark"
DEFAULT_SCHEMA: Final = "public"
MOST_OPEN_JOINS: Final = 10
"""JOINs in a row that wait for their ON: the parser's time doubles with each (12 of them: 0.2 s, 24: some minutes)."""
KEPT: Final = 512
"""Statements that are kept parsed: whoever reads a file of views asks each of them for many things, and programs read
it with every `cdc.cut` and `cdc.wait` (nine views: 22 ms, 6 ms where they are known)."""
_NO_TABLE: Final = TableName("", "")
_DIALECT: Final = Dialect.get_or_raise(DIALECT)


@contextmanager
def reading(view: str) -> Iterator[None]:
    """Any error in here is one of the statement: ConfigurationError."""
    try:
        yield
    except ConfigurationError:
        raise
    except RecursionError:
        _refuse(view, "it is nested too deep to be read")
    except Exception as error:  # noqa: BLE001
        # sqlglot and the analysis know no statement that nobody can write
        _LOG.debug("views.%s cannot be read", view, exc_info=True)
        _refuse(view, f"it cannot be read: {type(error).__name__} {error}".rstrip())


def parse_statement(view: str, sql: str, tables: Mapping[TableName, Table]) -> Statement:
    """Parse a view's SQL over these tables; raises ConfigurationError with the place in the statement."""
    with reading(view):
        return _parse_statement(view, sql, tables)


def _parse_statement(view: str, sql: str, tables: Mapping[TableName, Table]) -> Statement:
    tree = parse_query(view, sql)
    known = {str(name).lower(): name for name in tables}
    if any(with_.recursive for with_ in tree.find_all(exp.With)):
        _refuse(view, "WITH RECURSIVE is not supported")
    references = _find_references(view, tree, tables, known)
    tables = {place.table: tables[place.table] for place in references}
    known = {str(name).lower(): name for name in tables}
    qualifiers = _find_qualifiers(tree, known)
    tree = normalize(tree)
    admission = admit(tree)
    tree = _qualify(view, tree, tables.values())
    _check_branches(view, tree)
    built = build_tree(tree, lambda table: tables.get(known.get(str(_table_name(table)).lower(), _NO_TABLE)))
    left = (star for query in built.selects for star in find_stars(query.node))
    uncertain = [refuse(star, "", "it stands for columns that are not certain") for star in left]
    admission = replace(admission, opaque=[*admission.opaque, *uncertain])
    return Statement(sql, built, tables, references, qualifiers, admission)


def _qualify(view: str, tree: exp.Query, tables: Iterable[Table]) -> exp.Query:
    """The tree with the table of every column, and common table expressions inlined."""
    expand_windows(tree)
    wrap_renamed(tree)
    note_names(tree)
    mark_joins(tree)
    schema: dict[str, object] = {}
    for table in tables:
        in_schema = schema.setdefault(table.name.schema, {})
        assert isinstance(in_schema, dict)
        in_schema[table.name.table] = {c.name: spark_type(c).simpleString() for c in table.columns}
    try:
        tree = qualify(tree, schema=schema, dialect=DIALECT, db=DEFAULT_SCHEMA, quote_identifiers=False)
    except OptimizeError as error:
        _refuse(view, str(error))
    assert isinstance(tree, exp.Query)
    correct_joins(tree)
    try:
        return inline(tree)
    except TooManyCopiesError:
        _refuse(view, "its common table expressions name each other too often")


def check_view(view: str, sql: str, key: Sequence[str]) -> None:
    """Raise ConfigurationError for what no view may have, whatever its tables are; names its place."""
    _check_view(view, sql, tuple(key))


@lru_cache(maxsize=KEPT)
def _check_view(view: str, sql: str, key: tuple[str, ...]) -> None:
    with reading(view):
        tree = normalize(parse_query(view, sql))
        check_refused(view, [*admit(tree).refused, *find_variables(sql)])
        if not any(list_base_tables(tree)):
            _refuse(view, "it reads no table")
        check_key(view, key, tree.selects)


def check_refused(view: str, found: Iterable[Refused]) -> None:
    """Raise ConfigurationError for the first of these parts."""
    for refused in found:
        _refuse(view, f"{refused.name} is refused{refused.where}: {refused.why}")


def check_key(view: str, key: Sequence[str], selects: Sequence[exp.Expr]) -> None:
    """Raise ConfigurationError for a key that names a column twice, or one that the result has not, or has twice."""
    names = [name.lower() for name in key]
    for name in key:
        if names.count(name.lower()) > 1:
            raise ConfigurationError(f"views.{view}: its key has {name} twice", "correct its key")
    outputs = [part.alias_or_name.lower() for part in selects]
    named, has_star = [*map(name_output, selects)], any(part.is_star for part in selects)
    if twice := next((each for each in named if each not in (None, "*") and named.count(each) > 1), None):
        raise ConfigurationError(f"views.{view}: its result has two columns {twice}", "give one another name: … AS …")
    for name in key:
        if not has_star and name.lower() not in outputs:
            raise ConfigurationError(
                f"views.{view}: its result has no column {name}, which is in its key", "correct its key or its sql"
            )


def _check_branches(view: str, tree: exp.Query) -> None:
    for node in tree.find_all(exp.SetOperation):
        counts = [len(branch.selects) for branch in (node.left, node.right) if isinstance(branch, exp.Query)]
        if len({*counts}) > 1:
            _refuse(view, f"a branch of {type(node).__name__.upper()} has {counts[0]} columns, the other {counts[1]}")


def parse_query(view: str, sql: str) -> exp.Query:
    """Parse one query; raises ConfigurationError with the place of the first error."""
    with reading(view):
        # the tree is the caller's to change
        return _parse_query(view, sql).copy()


@lru_cache(maxsize=KEPT)
def _parse_query(view: str, sql: str) -> exp.Query:
    try:
        tokens = _tokenize(sql)
        if place := _find_open_join(tokens):
            _refuse(view, f"{MOST_OPEN_JOINS} JOINs wait for their ON at line {place.line}, column {place.col}")
        trees = _DIALECT.parser().parse(tokens, sql)
    except ParseError as error:
        first = error.errors[0]
        # some of sqlglot's reasons name its classes
        reason = "it is incomplete" if "sqlglot" in str(first["description"]) else first["description"]
        _refuse(view, f"{reason} at line {first['line']}, column {first['col']}")
    except TokenError as error:
        # it quotes the text, which may have several lines
        _refuse(view, " ".join(str(error).split()))
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        _refuse(view, "it is no single SELECT")
    drop_hints(trees[0])
    return trees[0]


def _find_open_join(tokens: Sequence[Token]) -> Token | None:
    """The first JOIN before which too many others are open; a CROSS JOIN never is."""
    pending = 0
    for before, token in pairwise(tokens):
        if token.token_type in (TokenType.ON, TokenType.USING):
            pending = max(pending - 1, 0)
        elif token.token_type == TokenType.JOIN and before.token_type != TokenType.CROSS:
            pending += 1
        if pending > MOST_OPEN_JOINS:
            return token
    return None


def drop_hints(tree: exp.Query) -> None:
    """A hint is advice to Spark, and means nothing: `/*+ BROADCAST(o) */` names no table."""
    for query in [*tree.find_all(exp.Select)]:
        query.set("hint", None)


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
    """A table by Postgres' rule: a name without backticks is in small letters, whatever the statement writes."""
    schema, name = (_fold(table.args.get(part)) for part in ("db", "this"))
    return TableName(schema or DEFAULT_SCHEMA, name)


def _fold(part: exp.Expr | None) -> str:
    if not isinstance(part, exp.Identifier):
        return part.name if part else ""
    return part.name if part.args.get("quoted") else part.name.lower()


def _find_references(
    view: str, tree: exp.Query, tables: Collection[TableName], known: Mapping[str, TableName]
) -> list[Reference]:
    found, folded = list[Reference](), dict[str, TableName]()
    for table in list_base_tables(tree):
        written = _table_name(table)
        name = written if written in tables else known.get(str(written).lower())
        if name is None or table.catalog:
            named = ".".join(part.name for part in table.parts)
            _refuse(view, f"no table or view {named} is followed (line {table.parts[0].meta['line']})")
        if (other := folded.setdefault(str(name).lower(), name)) != name:
            _refuse(view, f"it reads {other} and {name}, which Spark does not tell apart")
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
