"""Queries of TPC-H as views over few random rows.

Left out is what a view has no use for: ORDER BY, and LIMIT where it only cuts the sorted list. Q13 counts the customers
by their number of orders, which no table has as a column: its inner query is a view of its own, and the outer one reads
that.
"""

from datetime import date
from decimal import Decimal

from cdc.core.table import Kind
from cdc.views.definition import ViewDefinition
from tests.support.views.random_history import side

_REGIONS, _NATIONS, _SUPPLIERS, _CUSTOMERS, _ORDERS = range(2), range(4), range(3), range(5), range(8)
_DAYS = [date(1995, 2, 20), date(1995, 3, 14), date(1995, 3, 15), date(1995, 3, 30), date(1994, 1, 1)]
_AMOUNTS = [Decimal("100.00"), Decimal("33.33"), Decimal("0.01")]

SIDES = (
    side(
        "region", ["r_regionkey"], {"r_regionkey": (Kind.INTEGER, _REGIONS), "r_name": (Kind.TEXT, ["ASIA", "EUROPE"])}
    ),
    side(
        "nation",
        ["n_nationkey"],
        {
            "n_nationkey": (Kind.INTEGER, _NATIONS),
            "n_name": (Kind.TEXT, ["CHINA", "JAPAN", "FRANCE"]),
            "n_regionkey": (Kind.INTEGER, _REGIONS),
        },
    ),
    side(
        "supplier",
        ["s_suppkey"],
        {"s_suppkey": (Kind.INTEGER, _SUPPLIERS), "s_nationkey": (Kind.INTEGER, _NATIONS)},
    ),
    side(
        "customer",
        ["c_custkey"],
        {
            "c_custkey": (Kind.INTEGER, _CUSTOMERS),
            "c_name": (Kind.TEXT, ["Customer#1", "Customer#2"]),
            "c_nationkey": (Kind.INTEGER, _NATIONS),
            "c_mktsegment": (Kind.TEXT, ["BUILDING", "MACHINERY"]),
            "c_acctbal": (Kind.DECIMAL, _AMOUNTS),
        },
    ),
    side(
        "orders",
        ["o_orderkey"],
        {
            "o_orderkey": (Kind.BIGINT, _ORDERS),
            "o_custkey": (Kind.INTEGER, _CUSTOMERS),
            "o_orderdate": (Kind.DATE, _DAYS),
            "o_shippriority": (Kind.INTEGER, [0, 1]),
            "o_comment": (Kind.TEXT, ["", "special requests", "a special one that requests", "usual"]),
        },
    ),
    side(
        "lineitem",
        ["l_orderkey", "l_linenumber"],
        {
            "l_orderkey": (Kind.BIGINT, _ORDERS),
            "l_linenumber": (Kind.INTEGER, range(3)),
            "l_suppkey": (Kind.INTEGER, _SUPPLIERS),
            "l_quantity": (Kind.DECIMAL, [Decimal("10.00"), Decimal("150.00"), Decimal("200.00")]),
            "l_extendedprice": (Kind.DECIMAL, _AMOUNTS),
            "l_discount": (Kind.DECIMAL, [Decimal("0.00"), Decimal("0.07")]),
            "l_shipdate": (Kind.DATE, _DAYS),
            "l_returnflag": (Kind.TEXT, ["R", "N"]),
        },
    ),
)
_REVENUE = "sum(l_extendedprice * (1 - l_discount)) AS revenue"
VIEWS = (
    ViewDefinition.of(
        "tpch.q3",
        f"SELECT l_orderkey, {_REVENUE}, o_orderdate, o_shippriority FROM customer, orders, lineitem"
        " WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey"
        " AND o_orderdate < DATE'1995-03-15' AND l_shipdate > DATE'1995-03-15'"
        " GROUP BY l_orderkey, o_orderdate, o_shippriority",
        ["l_orderkey"],
    ),
    ViewDefinition.of(
        "tpch.q5",
        f"SELECT n_name, {_REVENUE} FROM customer, orders, lineitem, supplier, nation, region"
        " WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey"
        " AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey"
        " AND r_name = 'ASIA' AND o_orderdate >= DATE'1995-01-01' AND o_orderdate < DATE'1996-01-01' GROUP BY n_name",
        ["n_name"],
    ),
    ViewDefinition.of(
        "tpch.q10",
        f"SELECT c_custkey, c_name, {_REVENUE}, c_acctbal, n_name FROM customer, orders, lineitem, nation"
        " WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE'1995-01-01'"
        " AND l_returnflag = 'R' AND c_nationkey = n_nationkey GROUP BY c_custkey, c_name, c_acctbal, n_name",
        ["c_custkey"],
    ),
    ViewDefinition.of(
        "tpch.q13_counts",
        "SELECT c_custkey, count(o_orderkey) AS c_count FROM customer LEFT OUTER JOIN orders"
        " ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey",
        ["c_custkey"],
    ),
    ViewDefinition.of(
        "tpch.q13", "SELECT c_count, count(*) AS custdist FROM tpch.q13_counts GROUP BY c_count", ["c_count"]
    ),
    ViewDefinition.of(
        "tpch.q18",
        "SELECT c_name, c_custkey, o_orderkey, o_orderdate, sum(l_quantity) AS quantity FROM customer, orders, lineitem"
        " WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)"
        " AND c_custkey = o_custkey AND o_orderkey = l_orderkey GROUP BY c_name, c_custkey, o_orderkey, o_orderdate",
        ["o_orderkey"],
    ),
)
