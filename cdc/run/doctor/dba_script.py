"""The script of `cdc doctor --fix-sql`: what the source's administrator has to run, in an order that works."""

from collections.abc import Iterator, Sequence
from typing import Final

from cdc.run.doctor.fixes import Fix, JointStatement, LoneStatement, RoleRight, ServerSetting
from cdc.run.doctor.providers import Provider
from cdc.run.doctor.runner import Finding

NOTHING: Final = "-- nothing has to be run on the source"


def make_dba_script(findings: Sequence[Finding], provider: Provider) -> Iterator[str]:
    """Write the lines: settings of the server, then one transaction, then what takes no transaction.

    Findings without anything to run are left out. Where the provider has no ALTER SYSTEM, a comment says where a
    setting is set.
    """
    asked = [(finding, fix) for finding in findings for fix in finding.problem.fixes]
    if not asked:
        yield NOTHING
        return
    yield f"-- for {provider.name}{f': {provider.remark}' if provider.remark else ''}"
    yield from _settings([fix for _, fix in asked if isinstance(fix, ServerSetting)], provider)
    together = [(finding, fix) for finding, fix in asked if isinstance(fix, JointStatement | RoleRight)]
    if together:
        yield "BEGIN;"
        yield from _statements(together, provider)
        yield "COMMIT;"
    yield from _statements([(finding, fix) for finding, fix in asked if isinstance(fix, LoneStatement)], provider)


def _settings(settings: Sequence[ServerSetting], provider: Provider) -> Iterator[str]:
    for setting in dict.fromkeys(settings):
        told = provider.set_setting(setting.name, setting.value)
        yield f"{told};" if provider.where is None else f"-- {told}"
    if any(setting.needs_restart for setting in settings):
        yield "-- then restart the server"
    elif settings and provider.where is None:
        yield "SELECT pg_reload_conf();"


def _statements(asked: Sequence[tuple[Finding, Fix]], provider: Provider) -> Iterator[str]:
    """The statements once each, with the findings that ask for them."""
    findings: dict[str, list[str]] = {}
    for finding, fix in asked:
        text = provider.allow_replication(fix.role) if isinstance(fix, RoleRight) else _text_of(fix)
        findings.setdefault(text.rstrip(";"), []).append(finding.check)
    for text, checks in findings.items():
        yield f"{text};  -- {', '.join(dict.fromkeys(checks))}"


def _text_of(fix: Fix) -> str:
    assert isinstance(fix, JointStatement | LoneStatement)
    return fix.text
