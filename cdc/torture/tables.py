"""The tables of a run, and the pipeline that follows them with everything that it can have."""

from typing import Final

PIPELINE: Final = "torture"
ACCOUNTS: Final = 60
OWNERS: Final = 6
TOTAL: Final = ACCOUNTS * 1000
"""What all accounts have together, at every commit."""
REGISTERS: Final = 6
SEATS: Final = 40
DOCUMENTS: Final = 20
PARCELS: Final = 50
LONG: Final = 3000
"""Characters of a text that is stored out of line, and not sent when it is left alone."""
SCHEMA: Final = (
    "CREATE TABLE registers (id int PRIMARY KEY, value bigint NOT NULL)",
    "CREATE TABLE journal (writer int, n bigint, PRIMARY KEY (writer, n))",
    "CREATE TABLE owners (id int PRIMARY KEY, name text)",
    "CREATE TABLE accounts (id int PRIMARY KEY, owner int, balance bigint, note text)",
    "CREATE TABLE seats (id int PRIMARY KEY, guest text)",
    "CREATE TABLE rounds (id int PRIMARY KEY, round bigint, n int)",
    "CREATE TABLE documents (id int PRIMARY KEY, size int, body text)",
    "ALTER TABLE documents ALTER COLUMN body SET STORAGE EXTERNAL",
    "CREATE TABLE parcels (id int PRIMARY KEY, weight int, label text)",
    "CREATE TABLE searches (id int PRIMARY KEY, query jsonb)",
    f"INSERT INTO registers SELECT g, 0 FROM generate_series(1, {REGISTERS}) g",
    f"INSERT INTO owners SELECT g, 'owner ' || g FROM generate_series(1, {OWNERS}) g",
    f"INSERT INTO accounts SELECT g, 1 + g % {OWNERS}, 1000, 'as opened' FROM generate_series(1, {ACCOUNTS}) g",
    f"INSERT INTO seats SELECT g, 'guest ' || g FROM generate_series(1, {SEATS}) g",
    "INSERT INTO rounds SELECT g, 0, g FROM generate_series(1, 10) g",
    f"INSERT INTO documents SELECT g, 0, repeat('b', {LONG}) FROM generate_series(1, {DOCUMENTS}) g",
    f"INSERT INTO parcels SELECT g, g, 'label ' || g FROM generate_series(1, {PARCELS}) g",
    """INSERT INTO searches VALUES (1, '{"range": {"balance": {"gt": 1100}}}'), (2, '{"match_all": {}}')""",
)
TABLES: Final = tuple(
    f"public.{name}"
    for name in "registers journal owners accounts seats rounds documents parcels searches".split()  # noqa: SIM905
)
VIEW: Final = "bank.owners"
MIGRATED: Final = "public.parcels"
"""The table whose schema changes: it may be copied again at any time."""
_HISTORY: Final = "history: [public.accounts, public.seats, public.rounds]\n"
_VIEWS: Final = f"""views:
  {VIEW}:
    key: [id]
    sql: |
      SELECT o.id, o.name, count(a.id) AS accounts, sum(a.balance) AS balance
      FROM owners o LEFT JOIN accounts a ON a.owner = o.id GROUP BY o.id, o.name
  lobby.rounds:
    key: [round]
    sql: SELECT round, count(*) AS entries, sum(n) AS total FROM rounds GROUP BY round
  lobby.seats:
    key: [id]
    sql: SELECT s.id, s.guest, d.size FROM seats s LEFT JOIN documents d ON d.id = s.id

"""
_STEADY: Final = tuple(name for name in TABLES if name != MIGRATED)
_INDEXED: Final = ("public.registers", "public.accounts", "public.documents", "public.seats", "public.rounds", VIEW)
_MATCHED: Final = ("public.accounts", VIEW)
SHOWN: Final = {
    "lake": _STEADY,
    "views": (VIEW, "lobby.rounds", "lobby.seats"),
    "search": _INDEXED,
    "latest": (*_STEADY, "lobby.seats"),
    "alerts": _MATCHED,
}
"""Who holds what, but for the table that migrates: all that can be waited for."""
_ALERTS: Final = f"""  alerts:
    kind: percolator
    url: URL
    queries: {{table: public.searches, column: query}}
    tables: [{", ".join(_MATCHED)}]
"""


def configure(text: str) -> str:
    """A new configuration file's text with everything that a pipeline can have."""
    url = next(line.split(": ", 1)[1] for line in text.splitlines() if line.startswith("    url:"))
    changes = {
        "  state: .cdc\n": "  state: state\n",
        "\nfollowers:\n": f"\n{_HISTORY}{_VIEWS}followers:\n{_ALERTS.replace('URL', url)}",
        "    kind: search\n": f"    kind: search\n    tables: [{', '.join(_INDEXED)}]\n",
        "    kind: latest\n": f"    kind: latest\n    tables: [{', '.join(TABLES)}, lobby.seats]\n",
        "  driver_memory: 2g\n": "  driver_memory: 1g\n",
    }
    for old, new in changes.items():
        if text.count(old) != 1:
            raise ValueError(f"the template has changed: {old!r}")
        text = text.replace(old, new)
    return text
