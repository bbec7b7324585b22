"""The object store that a lake lies in."""

from collections.abc import Iterator
from typing import Final

from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.parts import AskedParts

_UNSEEN: Final = {
    "gs": "soft delete, versions, and lifecycle rules other than by age",
    "azure": "lifecycle rules, and soft delete",
}
"""What a login of the bucket alone cannot see."""
_RULES: Final = (
    "the bucket's rules: none may delete or archive below the lake's path; end incomplete uploads after a day"
)


@check("store.rights", Severity.ERROR, "the lake cannot be written, read, or kept clean")
def find_lacking_rights(parts: AskedParts) -> Iterator[Fault]:
    """The login may list, write, read and delete below the lake's path, each tried with an object that goes again."""
    if not (store := parts.store):
        return
    for right, error in store.refused.items():
        yield Fault(store.path, f"the right to {right} below {store.path} is lacking: {error.what}", error.remedy)


@check("store.put_if_absent", Severity.ERROR, "of two writers of one commit both would believe to have won")
def find_overwriting(parts: AskedParts) -> Iterator[Fault]:
    """The store leaves an object that is there when a second one is put if absent."""
    if (store := parts.store) and store.heeds is False and not store.refused.get("put if absent"):
        what = f"{store.path} overwrites an object that was to be put if absent"
        yield Fault(store.path, what, "use a store with conditional writes: two writers would lose commits in this one")


@check("store.lifecycle", Severity.ERROR, "files go that the tables name, and rows with them")
def find_expiry(parts: AskedParts) -> Iterator[Fault]:
    """No lifecycle rule of the bucket deletes what lies below the lake's path, as far as the store tells."""
    if (store := parts.store) and store.expiry:
        what = f"a rule of the bucket deletes what is written below {store.path}: {store.expiry}"
        yield Fault(store.path, what, "take the lake's prefix out of that lifecycle rule")


@check("store.versions", Severity.NOTE, "every file of the past is paid for until a rule ends its old versions")
def find_versions(parts: AskedParts) -> Iterator[Fault]:
    """The bucket keeps no versions of deleted files, of which compaction makes many."""
    if (store := parts.store) and store.is_versioned:
        what = f"the bucket of {store.path} keeps versions of what is deleted"
        yield Fault(store.path, what, "switch versions off, or let a rule end noncurrent versions after a day")


@check("store.unseen_rules", Severity.NOTE, "they may delete live files, or keep deleted ones, which costs")
def find_unseen_rules(parts: AskedParts) -> Iterator[Fault]:
    """The store tells of all rules that concern the lake."""
    if not (store := parts.store):
        return
    unseen = _UNSEEN.get(store.block, "" if store.is_versioned is not None else "lifecycle rules, and versions")
    if unseen:
        yield Fault(store.path, f"{store.path}: cdc cannot see {unseen}", f"look at {_RULES}")
