"""The arrows of the house, drawn from the source, and what importing it loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "constrain"

# Which parts each part may import when it is itself imported. Later parts stand on earlier ones.
CORE = [
    "errors",
    "token_readers",
    "vocabulary_check",
    "vocabulary",
    "per_vocabulary",
    "regex",
    "grammar_spec",
    "tags",
    "grammar",
    "backend",
    "compiler",
    "bitmask",
    "source",
]
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "regex": {"errors"},
    "token_readers": {"errors"},
    "vocabulary_check": {"errors", "token_readers"},
    "vocabulary": {"errors", "token_readers", "vocabulary_check"},
    "per_vocabulary": {"vocabulary"},
    "grammar_spec": {"errors", "regex"},
    "tags": {"errors", "grammar_spec", "vocabulary"},
    "grammar": {"grammar_spec", "vocabulary"},
    "backend": {"errors", "grammar", "grammar_spec", "vocabulary"},
    "compiler": {"errors", "backend", "grammar", "grammar_spec"},
    "bitmask": {"errors", "vocabulary"},
    "source": {"errors"},
    "schema": {"errors", "vocabulary", "per_vocabulary", "regex", "grammar_spec", "grammar"},
    "reasoning": {"errors", "vocabulary", "grammar_spec", "grammar", "bitmask"},
    "tools": {"errors", "grammar_spec", "reasoning", "schema", "tags", "vocabulary"},
    "sampling": {"errors"},
    "spec": {"errors", "vocabulary", "grammar", "bitmask", "source", "sampling"},
    "request": {"errors", "grammar", "grammar_spec", "sampling", "reasoning"},
    "result": {"errors", "sampling", "spec"},
    "output_reader": {*CORE, "reasoning"},
    "backends": {*CORE},
    "hf": {*CORE, "sampling", "reasoning", "output_reader", "request", "result", "engine"},
    "engine": {*CORE, "sampling", "spec", "reasoning", "output_reader", "request", "result"},
    "inputs": {*CORE, "sampling", "spec", "request", "reasoning"},
    "generate": {*CORE, "sampling", "result", "engine", "inputs"},
    "stream_pieces": {*CORE, "output_reader", "reasoning", "request", "result"},
    "stream": {*CORE, "sampling", "request", "result", "engine", "inputs", "generate", "stream_pieces"},
    "asynchronous": {"errors", "result", "inputs", "generate", "stream", "stream_pieces"},
    "inspect": {*CORE, "backends"},
    "conformance": {*CORE, "backends", "schema"},
    "commands": {*CORE, "sampling", "result", "stream"},
    "cli": {"errors", "commands"},
    "__main__": {"cli"},
    "__init__": {
        *CORE,
        "sampling",
        "spec",
        "reasoning",
        "request",
        "result",
        "engine",
        "generate",
        "stream",
        "stream_pieces",
        "asynchronous",
    },
}
# Inside a function, so that importing stays light: the doors to the heavy parts.
MAY_IMPORT_LATE: dict[str, set[str]] = {
    "grammar_spec": {"schema"},
    "backends": {"schema"},
    "engine": {"backends", "schema", "spec"},
    "inspect": {"schema"},
    "inputs": {"backends", "hf", "schema", "tools"},
    "output_reader": {"schema"},
    "stream_pieces": {"schema"},
    "conformance": {"hf"},
    "hf": {"backends", "schema", "tools"},
    "commands": {"backends", "conformance", "hf", "inspect", "schema"},
}
HOMES = {
    "xgrammar": {"backends/xgrammar.py"},
    "llguidance": {"backends/llguidance.py"},
    "outlines_core": {"backends/outlines.py"},
    "lmformatenforcer": {"backends/lm_format_enforcer.py"},
    "transformers": {"hf/"},
    "triton": {"sampling/ops/", "spec/ops/"},
    "jsonschema": {"schema/"},
    "referencing": {"schema/"},
    "regex": {"schema/"},
    "pydantic": {"schema/"},
    "pydantic_core": {"schema/"},
}


def imports(path: Path, *, late: bool) -> set[str]:
    """Modules that a file imports: at its top, or inside functions; what only a type checker sees is no import."""
    tree = ast.parse(path.read_text())
    inside = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            inside.update(ast.walk(node)) if not late else inside.difference_update(ast.walk(node))
    found: set[str] = set()
    for node in ast.walk(tree):
        if (node in inside) != late:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the arrows"
            found.add(node.module or "")
    return found


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_arrows_point_down(path: Path) -> None:
    part = part_of(path)
    for late in (False, True):
        ours = {name.split(".")[1] for name in imports(path, late=late) if name.startswith("constrain.")} - {part}
        allowed = MAY_IMPORT[part] | (MAY_IMPORT_LATE.get(part, set()) if late else set())
        assert ours <= allowed, f"{path.name} must not import {sorted(ours - allowed)}"


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_libraries_live_in_one_place(path: Path) -> None:
    place = path.relative_to(ROOT).as_posix()
    for name in imports(path, late=False) | imports(path, late=True):
        homes = HOMES.get(name.split(".")[0])
        assert homes is None or any(place.startswith(home) for home in homes), f"{place} imports {name}"


def test_no_backend_imports_another() -> None:
    for path in sorted((ROOT / "backends").rglob("*.py")):
        own = path.relative_to(ROOT / "backends").parts[0].removesuffix(".py")
        if own in ("auto", "__init__"):
            continue
        for name in imports(path, late=False) | imports(path, late=True):
            parts = name.split(".")
            other = parts[2] if parts[:2] == ["constrain", "backends"] and len(parts) > 2 else own
            assert other == own or other.startswith("_"), f"{path.name} imports {name}"


def test_importing_constrain_loads_nothing_heavy() -> None:
    code = (
        "import sys, constrain, constrain.backends, constrain.schema, constrain.sampling, constrain.reasoning;"
        "print([m for m in ('xgrammar', 'llguidance', 'outlines_core', 'lmformatenforcer', 'transformers', 'triton')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
