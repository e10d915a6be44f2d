"""Small collections in both forms."""

import json

import pytest

from constrain.conformance.case import Case, Instance

INTEGER = {"type": "integer"}


def make_case(title: str, schema: object = None, *, valid=(1, 23), invalid=("x",)) -> Case:
    """A case whose title tells the fake backend what to do."""
    instances = [*(Instance(data, True, f"valid {data}") for data in valid)]
    instances += [Instance(data, False, f"invalid {data}") for data in invalid]
    schema = {"title": title, **INTEGER} if schema is None else schema
    return Case(f"mini#{title}", "mini", "mini", "mini", title, schema, tuple(instances))


@pytest.fixture
def suite_folder(tmp_path):
    """A checkout of the official suite in miniature."""

    def test(data, valid):
        return {"description": f"{data} is {valid}", "data": data, "valid": valid}

    files = {
        "tests/draft2020-12/type.json": [
            {"description": "integer", "schema": INTEGER, "tests": [test(1, True), test("a", False)]},
            {"description": "remote", "schema": {"$ref": "http://localhost:1234/integer.json"},
             "tests": [test(3, True), test([], False)]},
        ],
        "tests/draft2020-12/optional/format/ipv4.json": [
            {"description": "ipv4", "schema": {"type": "string", "format": "ipv4"},
             "tests": [test("127.0.0.1", True), test("127.0.0.256", False)]},
        ],
        "tests/draft2020-12/optional/bignum.json": [
            {"description": "big", "schema": INTEGER, "tests": [test(12345678910111213, True)]},
        ],
        "tests/draft7/not.json": [
            {"description": "not", "schema": {"not": INTEGER}, "tests": [test("a", True), test(1, False)]},
        ],
        "tests/draft7/optional/content.json": [
            {"description": "content", "schema": {"contentEncoding": "base64"}, "tests": [test("%", False)]},
        ],
        "tests/v1/type.json": [{"description": "unknown draft", "schema": INTEGER, "tests": []}],
        "remotes/integer.json": INTEGER,
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    return tmp_path


@pytest.fixture
def lines_file(tmp_path):
    """Two schemas as JSON lines, with a separator of lines inside a string and a field that nobody knows."""
    lines = [
        {"name": "first", "schema": INTEGER, "tests": [{"data": 1, "valid": True}, {"data": "a", "valid": False}]},
        {"name": "second", "schema": {"const": "a\u2028b"}, "tests": [{"data": "a\u2028b", "valid": True}], "more": 0},
    ]
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
    return path
