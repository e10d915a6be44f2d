"""What came of one case, and its line in the file of results."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

Verdict = Literal[
    "exact", "unsatisfiable", "refused", "limit", "false_reject", "false_accept", "disagreement", "timeout", "memory",
    "crash",
]  # fmt: skip
"""From best to worst but for the first four.

``unsatisfiable``: refused since no value is valid, and none of the instances is, which is right. ``refused`` and
``limit`` are other typed errors; ``false_accept`` means that a text which breaks the schema can be generated,
``disagreement`` that mask, ``validate`` and ``accept`` contradict each other.
"""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
RIGHT: tuple[Verdict, ...] = ("exact", "unsatisfiable")
"""Nothing to do better."""
FAILURES: tuple[Verdict, ...] = ("false_accept", "disagreement", "crash")
"""With one of these a run fails."""


@dataclass(frozen=True, slots=True)
class InstanceResult:
    """One instance: ``accepted`` from the masks; ``at`` is the byte of ``text`` where it was refused."""

    description: str
    valid: bool
    accepted: bool
    text: str
    at: int | None = None
    disagreement: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.disagreement:
            return "disagreement"
        if self.accepted == self.valid:
            return "exact"
        return "false_accept" if self.accepted else "false_reject"


@dataclass(frozen=True, slots=True)
class WalkResults:
    """Random walks of one schema, by how they ended; ``capped`` ran into the limit of tokens.

    ``invalid`` has the finished texts that break the schema, and why; ``skipped`` is what there was no time for.
    """

    finished: int = 0
    capped: int = 0
    dead_ends: int = 0
    skipped: int = 0
    invalid: tuple[tuple[str, str], ...] = ()
    dead_texts: tuple[str, ...] = ()
    disagreements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case. ``error`` and ``message`` say what was raised, ``keywords`` what a refusal names."""

    key: str
    id: str
    family: str
    collection: str
    group: str
    name: str
    verdict: Verdict
    backend: str = ""
    error: str = ""
    message: str = ""
    keywords: tuple[str, ...] = ()
    seconds: float = 0.0
    instances: tuple[InstanceResult, ...] = ()
    walks: WalkResults = field(default_factory=WalkResults)

    def to_json(self) -> dict[str, Any]:
        """The line of the file of results, as data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "CaseResult":
        """What ``to_json`` gave. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for anything else."""
        walks = {name: _tuples(value) for name, value in data["walks"].items()}
        instances = tuple(InstanceResult(**item) for item in data["instances"])
        keywords = tuple(data["keywords"])
        return cls(**{**data, "instances": instances, "walks": WalkResults(**walks), "keywords": keywords})


def verdict_of(instances: Sequence[InstanceResult], walks: WalkResults) -> Verdict:
    """The worst of what the instances and the walks of a compiled schema show."""
    found: set[Verdict] = {item.verdict for item in instances}
    if walks.invalid:
        found.add("false_accept")
    if walks.disagreements:
        found.add("disagreement")
    order: tuple[Verdict, ...] = ("false_accept", "disagreement", "false_reject")
    return next((verdict for verdict in order if verdict in found), "exact")


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
