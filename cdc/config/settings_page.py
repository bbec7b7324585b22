"""The reference of all settings, as Markdown: `SETTINGS.md` beside this file."""

from collections.abc import Iterator, Mapping
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from cdc.config.settings import PipelineSettings
from cdc.core.settings import Settings
from cdc.sinks.registry import FollowerSettings

_NAMES: Final[Mapping[Any, str]] = {
    Any: "anything",
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
    SecretStr: "text, by reference",
    NoneType: "",
}
_NESTED: Final[Mapping[Any, str]] = {Annotated: "{0}", list: "list of {0}", dict: "mapping of {0} to {1}"}
FOLLOWERS: Final = "followers"
_HEAD: Final = ("| setting | type | default | meaning |", "|---|---|---|---|")


def to_markdown() -> str:
    """One table per block of `cdc.yaml`: every setting with its type, default and docstring."""
    tables = [f"## `{path}`\n\n{_table(block)}" for path, block in _blocks()]
    return "\n\n".join([f"## The file itself\n\n{_table(PipelineSettings)}", *tables])


def _blocks() -> Iterator[tuple[str, type[Settings]]]:
    for name, field in PipelineSettings.model_fields.items():
        if name == FOLLOWERS:
            for kind in get_args(get_args(FollowerSettings)[0]):
                (label,) = get_args(kind.model_fields["kind"].annotation)
                yield from _nested(f"followers.NAME, kind: {label}", kind)
        elif block := _block_of(field.annotation):
            is_named = get_origin(field.annotation) is dict
            yield from _nested(f"{name}.NAME" if is_named else name, block)


def _nested(path: str, block: type[Settings]) -> Iterator[tuple[str, type[Settings]]]:
    yield path, block
    for name, field in block.model_fields.items():
        if inner := _block_of(field.annotation):
            # `followers.NAME, kind: delta` holds `followers.NAME.…`
            named = ".NAME" if get_origin(field.annotation) is dict else ""
            yield from _nested(f"{path.split(',')[0]}.{name}{named}", inner)


def _block_of(annotation: object) -> type[Settings] | None:
    """The block that a setting is; None where it is a value."""
    options = get_args(annotation) or (annotation,)
    return next((each for each in options if isinstance(each, type) and issubclass(each, Settings)), None)


def _table(block: type[Settings]) -> str:
    rows = [
        f"| `{name}` | {_type_name(field.annotation)} | {_default(field)} | {_meaning(field)} |"
        for name, field in block.model_fields.items()
        if _block_of(field.annotation) is None and name != FOLLOWERS
    ]
    return "\n".join((*_HEAD, *rows))


def _type_name(annotation: Any) -> str:
    if annotation in _NAMES:
        return _NAMES[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _choices(member.value for member in annotation)
    options = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Literal:
        return _choices(options)
    names = [_type_name(each) for each in options if isinstance(each, type) or get_args(each) or each is Any]
    return _NESTED[origin].format(*names) if origin in _NESTED else " or ".join(name for name in names if name)


def _choices(values: Any) -> str:
    return ", ".join(f"`{value}`" for value in values)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value == "" or value in ({}, []):
        return ""
    # as YAML writes it: true, not True
    text = value.value if isinstance(value, Enum) else str(value).lower() if isinstance(value, bool) else value
    return f"`{text}`"


def _meaning(field: FieldInfo) -> str:
    # a bar would end the cell, and so would a line's end
    return " ".join((field.description or "").split()).replace("|", "\\|")
