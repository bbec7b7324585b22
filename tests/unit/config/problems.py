"""What may be wrong in a configuration file, one place at a time, and the line that tells of it."""

NAME_RULE = "a name: up to 40 of a-z, 0-9 and _, a letter first"


PROBLEMS = [
    (
        "dbname: shop",
        "dbname: shop/a+b",
        "cdc.yaml:7: source.dbname: has / and + in it, which drivers do not take; rename the database",
    ),
    (
        "user: cdc",
        "user: o'neil",
        "cdc.yaml:8: source.user: has ' in it, which drivers do not take; rename the role",
    ),
    (
        "host: db",
        "host: /run/postgresql",
        "cdc.yaml:15: connect.source_host: is required, a name of letters, digits, '_', '-' and '.': Debezium takes"
        " no other",
    ),
    (
        "port: 5432",
        "column_types: {public.orders: {total: float}}",
        "source.column_types.public.orders.total: \"float\" is not text, double, or 'decimal(p,s)' in quotes, with 0 ≤"
        " s ≤ p ≤ 38",
    ),
    (
        "port: 5432",
        "column_types: {public.orders: {total: 'decimal(5, 6)'}}",
        "source.column_types.public.orders.total: \"decimal(5, 6)\" is not text, double, or 'decimal(p,s)' in quotes,"
        " with 0 ≤ s ≤ p ≤ 38",
    ),
    (
        "port: 5432",
        "column_types: {'public.o*': {'*': text}}",
        "source.column_types.public.o*.*: is every numeric that is text anyway: name columns",
    ),
    (
        "port: 5432",
        "column_types: {'public.x*': {total: text}}",
        "source.column_types.public.x*: is none of source.tables",
    ),
    (
        "port: 5432",
        "column_types: {public.other: {total: text}}",
        "source.column_types.public.other: is none of source.tables",
    ),
    ("port: 5432", "keys: {'public.o*': [id]}", "source.keys.public.o*: is a pattern: name each table"),
    (
        "port: 5432",
        "on_schema_change_of: {'public.o*': stop}",
        "source.on_schema_change_of.public.o*: is a pattern: name each table",
    ),
    ("log:\n", "history: ['public.*']\nlog:\n", "history[0]: public.* is a pattern: name each table"),
    (
        "port: 5432",
        "mask: {public.orders: {note: star}}",
        'source.mask.public.orders.note: "star" is not drop, null, hash, last4, or word:TEXT',
    ),
    ("port: 5432", "mask: {public.orders: {note: hash}}", "source.mask.public.orders.note: needs source.mask_secret"),
    (
        "port: 5432",
        "mask: {'public.o*': {note: null}}",
        "source.mask.public.o*: is a pattern: name each table, so that none of its columns is missed",
    ),
    (
        "port: 5432",
        "where: {public.orders: 'id IN (SELECT 1)'}",
        "source.where.public.orders: has more than the row's own columns in it; Postgres takes no subqueries or"
        " aggregates here",
    ),
    ("port: 5432", "portt: 5432", "cdc.yaml:6: source.portt: unknown key, did you mean 'port'?"),
    ("port: 5432", "zzzz: 5432", "cdc.yaml:6: source.zzzz: unknown key"),
    ("log:\n", "lag: {}\nlog:\n", "cdc.yaml:13: lag: unknown key, did you mean 'log'?"),
    (
        "port: 5432",
        'port: "54x"',
        'cdc.yaml:6: source.port: "54x" is not a whole number between 1 and 65535',
    ),
    ("port: 5432", "port: 0", "cdc.yaml:6: source.port: 0 is not a whole number between 1 and 65535"),
    (
        "port: 5432",
        "heartbeat_seconds: 0",
        "cdc.yaml:6: source.heartbeat_seconds: 0 is not a whole number of at least 1",
    ),
    ("port: 5432", "port: [5432]", "cdc.yaml:6: source.port: the value is not a whole number between 1 and 65535"),
    ("port: 5432", "port:", "cdc.yaml:6: source.port: is empty"),
    ("host: db", 'host: ""', "cdc.yaml:5: source.host: must not be empty"),
    ("  host: db\n", "", "cdc.yaml:4: source.host: is required"),
    ("log:\n  bootstrap: kafka:9092\n", "", "cdc.yaml:1: log: is required"),
    ("log:\n  bootstrap: kafka:9092\n", "log:\n", "cdc.yaml:13: log: is empty"),
    ("dbname: shop", "dbname: 7", "cdc.yaml:7: source.dbname: the value is not text; put it in quotes"),
    ("${env:PW}", "12345", "cdc.yaml:9: source.password: the value is not text; put it in quotes"),
    ("source:\n", "7: 8\nsource:\n", "cdc.yaml:4: [7]: is a key that is not text; put it in quotes"),
    (
        "port: 5432",
        "sslmode: full",
        'cdc.yaml:6: source.sslmode: "full" is not one of disable, prefer, require, verify-ca, verify-full',
    ),
    (
        "port: 5432",
        "sslmode: verify_full",
        'cdc.yaml:6: source.sslmode: "verify_full" is not one of disable, prefer, require, verify-ca, verify-full,'
        " did you mean 'verify-full'?",
    ),
    (
        "http://connect:8083",
        "connect:8083",
        'cdc.yaml:16: connect.url: "connect:8083" is not an address that starts with http:// or https://',
    ),
    (
        "http://connect:8083",
        "ftp://me:canary@connect",
        'cdc.yaml:16: connect.url: "ftp://…@connect" is not an address that starts with http:// or https://',
    ),
    ("name: shop", "name: Shop", f'cdc.yaml:3: pipeline.name: "Shop" is not {NAME_RULE}'),
    ("version: 1", "version: 2", "cdc.yaml:1: version: 2 is not 1"),
    (
        "  search:\n",
        "  Search:\n",
        'cdc.yaml:21: followers.Search: "Search" is not a name: up to 40 of a-z, 0-9, _ and -, a letter first',
    ),
    (
        "kind: search",
        "kind: serch",
        'cdc.yaml:22: followers.search.kind: "serch" is not one of delta, latest, percolator, search, did you mean'
        " 'search'?",
    ),
    (
        "    kind: search\n",
        "",
        "cdc.yaml:21: followers.search.kind: is required: one of delta, latest, percolator, search",
    ),
    ("    path: lake\n", "", "cdc.yaml:18: followers.lake.path: is required"),
    (
        "kind: search",
        "kind: search\n    tables: ['public.*']",
        "followers.search.tables: public.* is a pattern: name each table",
    ),
    ("path: lake", "path: lake\n    delta: 1", "cdc.yaml:21: followers.lake.delta: unknown key"),
    (
        "path: lake",
        "path: hdfs://lake",
        "cdc.yaml:20: followers.lake.path: is neither a folder nor s3://bucket/prefix",
    ),
    (
        "path: lake",
        "path: s3a://lake",
        "cdc.yaml:20: followers.lake.path: is neither a folder nor s3://bucket/prefix",
    ),
    ("path: lake", "path: s3://", "cdc.yaml:20: followers.lake.path: is not s3://bucket/prefix"),
    ("path: lake", "path: gs://b//x", "cdc.yaml:20: followers.lake.path: is not gs://bucket/prefix"),
    (
        "path: lake",
        "path: abfss://box",
        "cdc.yaml:20: followers.lake.path: is not abfss://container@account.dfs.core.windows.net/prefix",
    ),
    (
        "path: lake",
        "path: s3://b\n    azure: {}",
        "cdc.yaml:21: followers.lake.azure: is for a path that begins with az:// or abfss://",
    ),
    (
        "path: lake",
        "path: az://b\n    azure: {account_key: canary!}",
        "cdc.yaml:21: followers.lake.azure.account_key: is no key of a storage account, which is base64",
    ),
    (
        "path: lake",
        "path: gs://b\n    gs: {service_account_key: canary}",
        "cdc.yaml:21: followers.lake.gs.service_account_key: is not the JSON of a service account's key",
    ),
    ("path: lake", "path: s3://b//x", "cdc.yaml:20: followers.lake.path: is not s3://bucket/prefix"),
    (
        "path: lake",
        "path: lake\n    s3: {}",
        "cdc.yaml:21: followers.lake.s3: is for a path that begins with s3://",
    ),
    (
        "path: lake",
        "path: s3://b\n    s3:\n      endpoint: http://store:9000",
        "cdc.yaml:22: followers.lake.s3.endpoint: is not encrypted: name an https:// one, or set allow_http: true"
        " where the network is yours",
    ),
    (
        "path: lake",
        "path: s3://b\n    s3:\n      endpoint: store:9000",
        'cdc.yaml:22: followers.lake.s3.endpoint: "store:9000" is not an address that starts with http://',
    ),
    (
        "path: lake",
        "path: s3://b\n    s3:\n      secret_access_key: canary",
        "cdc.yaml:21: followers.lake.s3: access_key_id and secret_access_key are given both or not at all",
    ),
    (
        "path: lake",
        "path: s3://b\n    s3:\n      session_token: canary",
        "cdc.yaml:22: followers.lake.s3.session_token: belongs to keys that are not given",
    ),
    (
        "path: lake",
        "path: s3://b\n    s3:\n      path_style: 7.5",
        "cdc.yaml:22: followers.lake.s3.path_style: 7.5 is not true or false",
    ),
    (
        "kind: search\n    url: http://search:9200",
        "kind: delta\n    path: other",
        "cdc.yaml:21: followers.search: a second one of kind delta, besides 'lake'",
    ),
    (
        "kind: delta\n    path: lake",
        "kind: latest",
        "cdc.yaml:17: followers: one of kind delta is needed: the others are fed from it",
    ),
    ("public.lines", "orders", "cdc.yaml:12: source.tables[1]: public.orders is there twice"),
    (
        "public.lines",
        "cdc.x",
        "cdc.yaml:12: source.tables[1]: cdc.x lies in the toolkit's own schema, 'cdc' (heartbeat_schema)",
    ),
    ("${env:PW}", "${env:NOPE}", "cdc.yaml:9: source.password: environment variable NOPE is not set"),
    (
        "${env:PW}",
        "${file:secret}",
        "cdc.yaml:9: source.password: file secret cannot be read: no such file or directory",
    ),
    ("port: 5432", "port: ${env:PW}", "the value of ${env:PW} is not a whole number between 1 and 65535"),
    ("port: 5432", "port: ${env:P:-canary}", "the value of ${env:P} is not a whole number between 1 and 65535"),
    ("port: 5432", "sslmode: ${env:PW}", "the value of ${env:PW} is not one of disable, "),
    ("${env:PW}", "${vault:canary}", "cdc.yaml:9: source.password: ${vault:…} is not a reference: ${env:NAME}"),
    ("${env:PW}", "canary${", "cdc.yaml:9: source.password: ${…} is not a reference: ${env:NAME}"),
    ("${env:PW}", '"${env:PW"', "cdc.yaml:9: source.password: ${env:…} is not a reference"),
]
"""A text of the file, what is there instead, and the line that says what is wrong with it."""
