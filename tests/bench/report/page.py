"""The report: one page that needs nothing beside it, and the same as Markdown."""

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from tests.bench.goal import Scale
from tests.bench.record import Record, read, verdicts
from tests.bench.report import markdown, numbers, plots

PAGE, TABLES = "index.html", "summary.md"
_STYLE = Path(__file__).with_name("page.css")


def write_report(folder: Path, names: Sequence[str]) -> Path:
    """Make page and tables of all results in a folder, in the order of the goals' names; gives the page."""
    folder.mkdir(parents=True, exist_ok=True)
    records = [read(file) for name in names if (file := folder / f"{name}.json").exists()]
    (folder / TABLES).write_text(markdown.summary(records))
    page = folder / PAGE
    page.write_text(page_of(records))
    return page


def page_of(records: Sequence[Record]) -> str:
    """The whole page."""
    body = "\n".join([_head(records), _summary(records), *map(_section, records)])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Benchmarks</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE.read_text()}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def _head(records: Sequence[Record]) -> str:
    met = [found.met for record in records if record.scale == Scale.FULL for found in verdicts(record)]
    counts = f"{met.count(True)} limits met, {met.count(False)} missed, {met.count(None)} without a valid run"
    small = sum(record.scale != Scale.FULL for record in records)
    counts += f"; {small} goals ran at a small scale, which only shows that they work" if small else ""
    return (
        f"<h1>Benchmarks</h1><p class=lead>{counts}. Every goal runs its sides in turn on one machine; contents are"
        " compared with Postgres after each run, and a difference voids it. Values are medians over the pairs, in"
        " brackets least and most.</p>"
    )


def _summary(records: Sequence[Record]) -> str:
    head = "<th>goal</th><th>measure</th><th>limit</th><th>reached</th><th>beside</th><th>verdict</th>"
    rows = "".join(row for record in records for row in _summary_rows(record))
    return f"<div class=wide><table class=summary><tr>{head}</tr>{rows}</table></div>"


def _summary_rows(record: Record) -> Iterator[str]:
    """A row a limit; the goal's name stands over all of its own."""
    found = verdicts(record)
    name = f'<td rowspan={len(found)}><a href="#{record.goal}">{_text(record.title)}</a>'
    name += f"<br><span class=about>{numbers.pairs(record)}</span></td>"
    for place, each in enumerate(found):
        yield (
            f"<tr>{'' if place else name}<td>{escape(each.limit.side)}: {_text(each.measure.title)}</td>"
            f"<td class=n>{escape(numbers.bound(each.limit, each.measure))}</td>"
            f"<td class=n>{escape(numbers.spread(each.reached))}</td>"
            f"<td>{escape(markdown.beside(record, each.limit))}</td>"
            f"<td>{_badge(numbers.verdict(each, record.scale))}</td></tr>"
        )


def _section(record: Record) -> str:
    badges = " ".join(_badge(numbers.verdict(found, record.scale)) for found in verdicts(record))
    figures = "".join(f"<figure>{svg}</figure>" for svg in _figures(record) if svg)
    troubles = "".join(f"<li>{escape(trouble)}</li>" for trouble in record.troubles)
    return (
        f'<section id="{record.goal}"><h2>{_text(record.title)} {badges}</h2>'
        f"<p class=asked>Asked: {_text(record.asked)}.</p><p class=about>{escape(_about(record))}</p>"
        f"{f'<ul class=trouble>{troubles}</ul>' if troubles else ''}"
        f"<div class=figures>{figures}</div><div class=wide>{_table(record)}</div></section>"
    )


def _figures(record: Record) -> Iterator[str]:
    """Samples first; then each measure that has a limit, its ratios; then what it took."""
    bounds = {limit.measure: limit.bound for limit in record.limits if not limit.per}
    divided = {limit.measure: limit.bound for limit in record.limits if limit.per}
    measures = {measure.name: measure for measure in record.measures}
    for name in dict.fromkeys(name for run in record.runs for name in run.samples):
        yield plots.samples_plot(record, name, bounds.get(name))
    for name in dict.fromkeys([record.headline.name, *bounds, *divided]):
        yield plots.pairs_plot(record, measures[name], bounds.get(name))
    for name in dict.fromkeys([record.headline.name, *divided]):
        yield plots.ratio_plot(record, measures[name], divided.get(name))
    yield plots.usage_plot(record, memory=False)
    yield plots.usage_plot(record, memory=True)


def _table(record: Record) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in ("measure", *record.sides, "ratios, pair by pair"))
    rows = []
    for measure in record.measures:
        values = [numbers.spread(record.spread(side, measure.name)) for side in record.sides]
        if any(value != numbers.NOTHING for value in values):
            cells = "".join(f"<td class=n>{escape(value)}</td>" for value in values)
            divided = "<br>".join(map(escape, numbers.ratios(record, measure)))
            rows.append(f"<tr><td>{escape(numbers.with_unit(measure))}</td>{cells}<td>{divided}</td></tr>")
    return f"<table class=measures><tr>{head}</tr>{''.join(rows)}</table>"


def _about(record: Record) -> str:
    machine = record.about["machine"]
    sizes = ", ".join(f"{name} {value:,}" for name, value in record.sizes.items())
    settings = record.about.get("settings")
    return (
        f"{numbers.pairs(record)} ({sizes or 'no parameters'}),"
        f" commit {record.about['commit']}, {record.about['when']}, {machine['cores']} cores {machine['processor']},"
        f" {machine['memory_gib']} GiB, load before {machine['load_before'][0]}"
        + (f", settings {settings}" if settings else "")
    )


def _text(text: str) -> str:
    """Text with code in backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _badge(word: str) -> str:
    kind = "hint" if "scale" in word else word.split()[0]
    return f'<span class="badge {kind}">{word}</span>'
