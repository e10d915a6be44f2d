"""What is run, and how: one schema with its test instances, and the settings of a run."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from constrain.grammar_spec import Profile

InstanceOrder = Literal["schema", "as-is"]


@dataclass(frozen=True, slots=True)
class Instance:
    """One test: a JSON value, and whether it is valid."""

    data: Any
    valid: bool
    description: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One schema with its instances.

    ``id`` is unique within a run and stable between runs. ``family`` and ``collection`` are what the tables count by
    (``"official suite"`` and ``"draft7, optional"``), ``group`` the file, which is a keyword in the official suite.
    """

    id: str
    family: str
    collection: str
    group: str
    name: str
    schema: Any
    instances: tuple[Instance, ...]
    dialect: str = "draft2020-12"
    assert_formats: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """How the cases of a run are judged. A result is reused only under equal settings.

    ``backend`` is a name or ``package.module:Class``; ``vocabulary`` is ``"builtin"``, ``"packaged"`` (SmolLM2's) or
    the folder of a tokenizer. ``profile`` is the form of JSON, ``instance_order`` how instances are written: as they
    stand, or in the order of the schema; None: as the profile wants them. ``case_seconds`` and ``memory_mb`` end the
    worker that exceeds them.
    """

    backend: str = "auto"
    vocabulary: str = "builtin"
    profile: Profile = "default"
    instance_order: InstanceOrder | None = None
    num_walks: int = 0
    max_walk_tokens: int = 3000
    seed: int = 0
    remotes: str | None = None
    case_seconds: float = 60.0
    memory_mb: int = 4096

    @property
    def keeps_order(self) -> bool:
        """Whether instances are written as they stand."""
        return (self.instance_order or ("as-is" if self.profile == "wide" else "schema")) == "as-is"


def case_key(case: Case, settings: Settings, versions: str) -> str:
    """A hash of all that the result of ``case`` depends on but the code: equal keys mean that it need not run again."""
    text = json.dumps([asdict(case), asdict(settings), versions], default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
