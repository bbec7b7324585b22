"""Statements that another reader of SQL easily takes for something else."""

from cdc.core.table import Kind
from cdc.views.definition import ViewDefinition
from tests.support.views.random_history import side

_IDS = range(6)
_VALUES = [None, *range(5)]

SIDES = (
    side("a", ["id"], {"id": (Kind.INTEGER, _IDS), "x": (Kind.INTEGER, _VALUES)}),
    side("b", ["id"], {name: (Kind.INTEGER, _IDS if name == "id" else _VALUES) for name in ("id", "a_id", "y")}),
    side("c", ["id"], {name: (Kind.INTEGER, _IDS if name == "id" else _VALUES) for name in ("id", "b_id", "z")}),
)
VIEWS = (
    ViewDefinition.of("odd.using", "SELECT id, x, y, z FROM a RIGHT JOIN b USING (id) LEFT JOIN c USING (id)", ["id"]),
    ViewDefinition.of("odd.natural", "SELECT id, x, y, z FROM a FULL JOIN b USING (id) NATURAL FULL JOIN c", ["id"]),
    ViewDefinition.of(
        "odd.shadowed",
        "WITH q AS (SELECT id, x AS n FROM a), s AS (WITH q AS (SELECT id, a_id AS n FROM b WHERE a_id IS NOT NULL)"
        " SELECT n, count(*) AS m FROM q GROUP BY n) SELECT q.id, s.m FROM q LEFT JOIN s ON s.n = q.id",
        ["id"],
    ),
    ViewDefinition.of(
        "odd.renamed",
        "WITH q AS (SELECT id, x FROM a) SELECT t.x, u.y FROM q AS t(x, id) LEFT JOIN b AS u(y, i, j) ON u.y = t.id",
        ["x"],
    ),
    ViewDefinition.of(
        "odd.comma",
        "SELECT c.id, a.id AS a, b.id AS b FROM a, b RIGHT JOIN c ON b.id = c.b_id WHERE a.id = c.z",
        ["id"],
    ),
    ViewDefinition.of("odd.letters", "SELECT ID AS theId, Y FROM b WHERE `Y` > 1", ["theid"]),
    ViewDefinition.of("odd.chosen", "SELECT id, x FROM a QUALIFY row_number() OVER (ORDER BY x, id) < 3", ["id"]),
)
