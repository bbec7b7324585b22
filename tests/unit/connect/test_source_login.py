"""What a login on the source may be: what libpq's files say, and what a client could not do, refused by name."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from pydantic import ValidationError

from cdc.connect.settings import SourceSettings
from cdc.connect.source.access.connection import conninfo
from cdc.connect.source_login import JDBC_KEY, find_unreadable_key, is_elliptic
from cdc.secrets import renew

WORD = "canary-hunter2"
SERVICES = f"[other]\nhost=elsewhere\n\n[shop]\n# ours\nhost=db\nport=5433\ndbname=shop\nuser=cdc\npassword={WORD}\n"


def settings(**values: Any) -> SourceSettings:
    given = {"host": "db", "dbname": "shop", "user": "cdc", "password": "p", "tables": ["public.a"], **values}
    return SourceSettings.model_validate({name: value for name, value in given.items() if value is not None})


def refusal(**values: Any) -> str:
    with pytest.raises(ValidationError) as told:
        settings(**values)
    assert WORD not in str(told.value)
    (only,) = told.value.errors(include_input=False)
    return f"{only['ctx']['findings'][0][0]} {only['msg']}"


def test_a_service_fills_in_what_the_block_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "services"
    file.write_text(f"{SERVICES}sslmode=verify-full\nconnect_timeout=3\n")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    found = settings(service="shop", host=None, dbname=None, user="own", password=None)
    assert (found.host, found.port, found.dbname, found.user) == ("db", 5433, "shop", "own")
    assert (found.sslmode, found.connect_timeout_seconds) == ("verify-full", 3)
    assert WORD in conninfo(found)
    file.write_text(SERVICES.replace(WORD, "second"))
    assert renew(found.password, WORD)
    assert found.password.get_secret_value() == "second"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SERVICES.replace("[shop]", "[shops]"), "is in none of"),
        (f"{SERVICES}options=-c x=y\n", "sets options, which not every client"),
        (f"password={WORD}", "is no service file"),
    ],
)
def test_a_service_that_cannot_be_taken_is_refused(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "services").write_text(text)
    assert why in refusal(service="shop", service_file=str(tmp_path / "services"))


LINES = f"""# a remark
elsewhere:5432:*:*:no
*:5432:shop:c\\:d\\\\c:first\\:{WORD}
db:*:*:cdc:{WORD}
db2:*:*:cdc:other
"""


def test_a_password_file_is_looked_up_as_libpq_does(tmp_path: Path) -> None:
    file = tmp_path / "pass"
    file.write_text(LINES)
    file.chmod(0o600)
    found = settings(passfile=str(file), password=None)
    assert found.password.get_secret_value() == WORD
    escaped = settings(passfile=str(file), password=None, user="c:d\\c")
    assert escaped.password.get_secret_value() == f"first:{WORD}"
    file.write_text(LINES.replace(WORD, "second"))
    assert renew(found.password, WORD)
    assert found.password.get_secret_value() == "second"
    assert "no line for this host" in refusal(passfile=str(file), password=None, user="nobody")
    assert "not one password for all" in refusal(passfile=str(file), password=None, host="db,db2")
    file.chmod(0o640)
    assert "chmod 600" in refusal(passfile=str(file), password=None)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"channel_binding": "require"}, "('channel_binding',) is of TLS: set sslmode to verify-full"),
        ({"sslmode": "require", "sslcert": "c"}, "('sslkey',) is required: a certificate and its key go together"),
        ({"sslmode": "verify-full", "sslrootcert": "system"}, "('sslrootcert',) is a file"),
        ({"target_session_attrs": "primary"}, "('target_session_attrs',) chooses among several hosts"),
        ({"password": None}, "('password',) is required, unless"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(values: dict[str, str], why: str) -> None:
    assert why in refusal(**values)


@pytest.mark.parametrize("attrs", ["standby", "prefer-standby", "read-only", "any"])
def test_no_standby_can_be_asked_for(attrs: str) -> None:
    with pytest.raises(ValidationError, match="'primary' or 'read-write'"):
        settings(host="a,b", target_session_attrs=attrs)


def test_a_key_that_a_client_cannot_read_is_refused(tmp_path: Path) -> None:
    key, plain = rsa.generate_private_key(public_exponent=65537, key_size=2048), NoEncryption()
    word = BestAvailableEncryption(b"w")
    forms = {
        "pkcs8": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, plain),
        "old": key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, plain),
        "encrypted": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, word),
        "der": key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, plain),
        "elliptic": ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, plain),
    }
    for name, content in forms.items():
        (tmp_path / name).write_bytes(content)

    def find(name: str, overrides: dict[str, str]) -> str:
        return find_unreadable_key(str(tmp_path / name), overrides) or ""

    assert (find("pkcs8", {}), find("elliptic", {}), find("old", {JDBC_KEY: "/of/connect.p12"})) == ("", "", "")
    assert "is not PKCS #8" in find("old", {})
    assert "is encrypted" in find("encrypted", {JDBC_KEY: "/of/connect.p12"})
    assert "is not PEM" in find("der", {})
    assert "no such file" in find("nowhere", {})
    assert (is_elliptic(str(tmp_path / "elliptic")), is_elliptic(str(tmp_path / "pkcs8"))) == (True, False)
