"""What a run showed: tables for a terminal and for a README, and every failure by name."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from constrain.conformance.results import FAILURES, RIGHT, VERDICTS, CaseResult

_VERDICT_TITLES = [verdict.replace("_", " ") for verdict in VERDICTS]


@dataclass(frozen=True, slots=True)
class Counts:
    """One row of a table."""

    title: str
    verdicts: Counter[str]
    num_valid: int
    num_valid_accepted: int
    num_walks: int
    num_dead_ends: int
    num_capped: int

    @property
    def total(self) -> int:
        return self.verdicts.total()

    @property
    def num_right(self) -> int:
        """Exact ones, and refusals that are right."""
        return sum(self.verdicts[verdict] for verdict in RIGHT)

    @property
    def valid_share(self) -> str:
        """Valid instances accepted, of the schemas that compiled."""
        return f"{100 * self.num_valid_accepted / self.num_valid:.1f} %" if self.num_valid else "–"


def count_by(results: Iterable[CaseResult], title_of: Callable[[CaseResult], str]) -> list[Counts]:
    """A row for each title, in the order of their first results."""
    groups: dict[str, list[CaseResult]] = {}
    for result in results:
        groups.setdefault(title_of(result), []).append(result)
    return [_counts(title, group) for title, group in groups.items()]


def text_tables(results: Sequence[CaseResult]) -> str:
    """By collection and by file, for a terminal."""
    parts = [_text_table("collection", [*count_by(results, lambda result: result.collection), _sum(results)])]
    by_file = [result for result in results if result.group != result.collection]
    if by_file:
        rows = sorted(count_by(by_file, lambda result: result.group), key=lambda row: ("/" in row.title, row.title))
        parts.append(_text_table("file", rows))
    return "\n\n".join(parts)


def failures_text(results: Sequence[CaseResult]) -> str:
    """Every false accept, disagreement, crash, timeout and exceeded memory, and what refusals name most."""
    lines = [line for result in results for line in _failure_lines(result)]
    lines += _false_accept_summary(results)
    refused = [result for result in results if result.verdict == "refused"]
    named = Counter(keyword for result in refused for keyword in result.keywords)
    if named:
        lines.append("refusals name: " + ", ".join(f"{keyword} {count}" for keyword, count in named.most_common()))
    unnamed = Counter(f"{result.error}: {result.message:.100}" for result in refused if not result.keywords)
    lines += [f"refused without a keyword: {count} × {message}" for message, count in unnamed.most_common(20)]
    return "\n".join(lines)


def markdown_table(
    results: Sequence[CaseResult], description: str, others: Mapping[str, Sequence[CaseResult]] | None = None
) -> str:
    """The table that a README quotes: the same text for the same results. ``others`` are runs by their profiles."""
    others = others or {}
    titles = ["schemas", "exact", "refused", "false rejects", "**false accepts**", "other", "valid instances accepted"]
    titles += [f"exact, `{profile}`" for profile in others]
    lines = [f"| {' | '.join(['', *titles])} |", f"|---|{'---:|' * len(titles)}"]
    beside = [{row.title: row for row in count_by(run, _markdown_title)} for run in others.values()]
    for row in count_by(results, _markdown_title):
        shown = [row.verdicts[name] for name in ("exact", "refused", "false_reject", "false_accept")]
        shown[0] += row.verdicts["unsatisfiable"]
        shown[1] += row.verdicts["limit"]
        cells = [
            row.total,
            *shown,
            row.total - sum(shown),
            row.valid_share,
            *(run[row.title].num_right for run in beside),
        ]
        lines.append(f"| {row.title} | {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, "", description])


def has_failures(results: Iterable[CaseResult]) -> bool:
    """Whether anything happened that must never happen."""
    return any(result.verdict in FAILURES for result in results)


def _counts(title: str, results: Sequence[CaseResult]) -> Counts:
    valid = [item.accepted for result in results for item in result.instances if item.valid]
    walks = [result.walks for result in results]
    return Counts(
        title,
        Counter(result.verdict for result in results),
        len(valid),
        sum(valid),
        sum(walk.finished for walk in walks),
        sum(walk.dead_ends for walk in walks),
        sum(walk.capped for walk in walks),
    )


def _sum(results: Sequence[CaseResult]) -> Counts:
    return _counts("all", results)


def _text_table(first: str, rows: Sequence[Counts]) -> str:
    header = [first, "schemas", *_VERDICT_TITLES, "valid accepted", "walks", "dead ends", "capped"]
    cells = [header]
    for row in rows:
        verdicts = [str(row.verdicts[verdict] or ".") for verdict in VERDICTS]
        walks = [str(number or ".") for number in (row.num_walks, row.num_dead_ends, row.num_capped)]
        cells.append([row.title, str(row.total), *verdicts, row.valid_share, *walks])
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in ([*zip(line, widths, strict=True)] for line in cells)
    )


def _false_accept_summary(results: Sequence[CaseResult]) -> list[str]:
    """How many false accepts the instances show, and why the validator refuses what the walks wrote."""
    false_accepts = [result for result in results if result.verdict == "false_accept"]
    if not false_accepts:
        return []
    by_instances = sum(any(item.verdict == "false_accept" for item in result.instances) for result in false_accepts)
    reasons = Counter(_reason(error) for result in false_accepts for _, error in result.walks.invalid)
    lines = [f"false accepts: {by_instances} by instances, {len(false_accepts) - by_instances} by walks alone"]
    return lines + [f"    {count} walks: {reason}" for reason, count in reasons.most_common(10)]


def _reason(error: str) -> str:
    """``error`` without the place and the values that it names."""
    without_place = error.partition(": ")[2] if error.startswith("at /") else error
    return re.sub(r"'[^']*'|\"[^\"]*\"|-?\d[\d.eE+-]*", "…", without_place)[:80]


def _failure_lines(result: CaseResult) -> list[str]:
    if result.verdict not in (*FAILURES, "timeout", "memory"):
        return []
    head = f"{result.verdict.upper().replace('_', ' ')} {result.id} ({result.name}), {result.backend or 'no backend'}"
    lines = [f"{head}: {result.error} {result.message:.300}" if result.error else head]
    for item in result.instances:
        if item.verdict in FAILURES:
            lines.append(f"    {item.description}: {item.text:.200} {item.disagreement}".rstrip())
    lines += [f"    walk: {text:.200}: {error}" for text, error in result.walks.invalid[:3]]
    return [*lines, *(f"    walk: {message:.300}" for message in result.walks.disagreements[:3])]


def _markdown_title(result: CaseResult) -> str:
    """Collections of the official suite one by one, a folder of JSON lines as one."""
    return result.family if result.group == result.collection else result.collection
