"""The key of erasures, and tombstones of a chain."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pydantic import SecretStr

from cdc.config.erase_settings import EraseSettings
from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.run.signatures import SigningKey, is_signed
from cdc.sinks.lake.history.chain import extend, find_break
from cdc.sinks.lake.history.erased import NOTHING, ErasedBatch, restore_digests


def load(key: Ed25519PrivateKey | X25519PrivateKey) -> SigningKey:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return SigningKey.load(EraseSettings(signing_key=SecretStr(pem)))


def test_what_one_key_signs_and_seals_no_other_takes() -> None:
    one, other = load(Ed25519PrivateKey.generate()), load(Ed25519PrivateKey.generate())
    assert is_signed(b"content", one.public, one.sign(b"content"))
    assert not is_signed(b"another", one.public, one.sign(b"content"))
    assert not is_signed(b"content", other.public, one.sign(b"content"))
    assert not is_signed(b"content", "no hex", "no hex")
    assert one.name("public.t", '{"id":7}') != other.name("public.t", '{"id":7}')
    sealed = one.seal(b"a value", "name")
    assert one.unseal(sealed, "name") == b"a value"
    for key, name in ((other, "name"), (one, "another name")):
        with pytest.raises(PreconditionError, match="sealed with another key"):
            key.unseal(sealed, name)


def test_what_is_no_key_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"signing_key is not set.*openssl genpkey"):
        SigningKey.load(EraseSettings())
    for text in ("", "nonsense"):
        with pytest.raises(ConfigurationError, match="no Ed25519 key"):
            SigningKey.load(EraseSettings(signing_key=SecretStr(text)))
    with pytest.raises(ConfigurationError, match="no Ed25519 key"):
        load(X25519PrivateKey.generate())


def test_a_chain_goes_on_over_tombstones() -> None:
    chain, whole = "", list[tuple[int, str, str]]()
    for number in range(1, 5):
        chain = extend(chain, f"d{number}")
        whole.append((number, chain, f"d{number}"))
    chains = {number: noted for number, noted, _ in whole}
    # of batch 2 some rows are left, of the last one none
    some, none = ErasedBatch(2, "d2", "left", chains[2], 1, 0), ErasedBatch(4, "d4", NOTHING, chains[4], 3, 0)
    left = [whole[0], (2, chains[2], "left"), whole[2]]
    assert list(restore_digests(left, [some, none])) == whole
    assert find_break(restore_digests(left, [some, none])) is None
    # without one, or with other rows than an erasure left
    assert find_break(restore_digests(left, [none])) == 2
    changed = [whole[0], (2, chains[2], "others"), whole[2]]
    assert find_break(restore_digests(changed, [some, none])) == 2
    added = [*left, (4, chains[4], "rows again")]
    assert find_break(restore_digests(added, [some, none])) == 4
