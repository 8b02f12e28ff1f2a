"""docs/guides/configuration.md: its tables say what the code of every language says, and leave nothing out."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT
from processes import environment

PAGE = ROOT / "docs/guides/configuration.md"
WIDTH = 130  # characters of a row
MODULE_SECTIONS = ("Redis and connections", "Pushing", "The server", "Payloads, errors, log")
WORKER_SECTIONS = ("What makes the queue", "Settings that belong to the queue", "Settings of each process")
DEFAULTS = {"nil": None, "empty": [], "false": False, "the worker's name": "orders", "`queue_name`": "orders"}
SOURCES = ("ruby/lib/**/*.rb", "python/seriatim/**/*.py", "lua/seriatim/**/*.lua", "lua/resty/**/*.lua", "core/src/**/*.c")
PROBES = {
    "Ruby": ["ruby", "-I", "ruby/lib", "spec/docs/settings_probe.rb"],
    "Python": [sys.executable, "spec/docs/settings_probe.py"],
    "Lua": ["lua5.4", "spec/docs/settings_probe.lua"],
}

Row = dict[str, str]


def tables() -> Iterator[tuple[str, list[Row]]]:
    """Each table of the page with its section; a row is its cells by the heads of the columns."""
    section, lines = "", []
    for line in [*PAGE.read_text().splitlines(), ""]:
        if line.startswith("|"):
            lines.append([cell.strip() for cell in line.strip("|").split("|")])
        elif lines:
            yield section, [dict(zip(lines[0], cells, strict=True)) for cells in lines[2:]]
            lines = []
        if line.startswith("#"):
            section = line.lstrip("#").strip()


def table(section: str, head: str) -> list[Row]:
    """The section's table whose first column is headed so."""
    return next(rows for at, rows in tables() if at == section and head in rows[0])


def words(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def settings(sections: tuple[str, ...], language: str) -> dict[str, Row]:
    """The rows of the settings that the language has, by name."""
    rows = [row for section in sections for row in table(section, "setting")]
    return {words(row["setting"])[0]: row for row in rows if "(" not in row["setting"] or f"({language})" in row["setting"]}


def default(row: Row) -> Any:
    cell = row["default"]
    if cell in DEFAULTS:
        return DEFAULTS[cell]
    return words(cell)[0] if words(cell) else float(cell) if re.fullmatch(r"[\d.]+", cell) else cell


def limits(row: Row) -> tuple[float, float] | None:
    found = re.fullmatch(r"(-?[\d.]+) to ([\d.]+)( bytes)?", row["range"])
    return (float(found[1]), float(found[2])) if found else None


def ends(row: Row) -> tuple[list[Any], list[Any]]:
    """Values at the ends of the range, and the next ones beyond them."""
    found = limits(row)
    if found is None:
        return words(row["range"]), ["nothing"] if words(row["range"]) else []
    low, high = found
    if row["value"] == "text":
        return ["x" * int(low), "x" * int(high)], ["x" * (int(low) - 1), "x" * (int(high) + 1)]
    if row["value"].split()[0] == "integer":
        return [int(low), int(high)], [int(low) - 1, int(high) + 1]
    return [low, high], [low - 0.0001, high + 0.0001]


def probe_values(rows: Mapping[str, Row]) -> dict[str, list[Any]]:
    return {name: [value for values in ends(row) for value in values] for name, row in rows.items()}


@pytest.fixture(scope="module", params=list(PROBES))
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def code(language: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the language's probe says of its settings."""
    asked = {"module": probe_values(settings(MODULE_SECTIONS, language)), "worker": probe_values(settings(WORKER_SECTIONS, language))}
    file = tmp_path_factory.mktemp("config") / "unknown.json"
    file.write_text('{"nothing": 1}')  # which is YAML, too
    env = environment({"PYTHONPATH": "python", "PYTHONDONTWRITEBYTECODE": "1", "LUA_PATH": "lua/?.lua;;", "LUA_CPATH": "lua/lib/5.4/?.so;;"})
    ended = subprocess.run([*PROBES[language], str(file)], cwd=ROOT, env=env, input=json.dumps(asked), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize(("kind", "sections"), [("module", MODULE_SECTIONS), ("worker", WORKER_SECTIONS)])
def test_each_language_has_the_settings_with_these_defaults(code: Any, language: str, kind: str, sections: tuple[str, ...]) -> None:
    rows = settings(sections, language)
    functions = {words(row["function"])[0] for row in table("Functions of a worker", "function")}
    found = {name: value for name, value in code[kind].items() if name not in functions}
    assert found == {name: default(row) for name, row in rows.items()}


@pytest.mark.parametrize(("kind", "sections"), [("module", MODULE_SECTIONS), ("worker", WORKER_SECTIONS)])
def test_each_language_keeps_these_ranges(code: Any, language: str, kind: str, sections: tuple[str, ...]) -> None:
    for name, row in settings(sections, language).items():
        taken, refused = ends(row)
        said = code["refusals"][kind][name]
        assert said[:len(taken)] == [None] * len(taken), f"{name}: {taken}: {said}"
        assert None not in said[len(taken):], f"{name} takes one of {refused}"
        if words(row["range"]):
            assert f"one of {', '.join(words(row['range']))}, not" in said[-1], name


def test_every_setting_with_a_number_has_a_range() -> None:
    for section in (*MODULE_SECTIONS, *WORKER_SECTIONS):
        for row in table(section, "setting"):
            measured = row["value"].split()[0] in ("integer", "seconds", "text")
            assert measured == (limits(row) is not None), row


def test_the_functions_of_a_worker(code: Any, language: str) -> None:
    named = {words(row["function"])[0] for row in table("Functions of a worker", "function")}
    if language == "Lua":
        assert named == set(code["worker"]) - set(settings(WORKER_SECTIONS, "Lua"))
    if language == "Python":
        assert named - {"perform_async"} == set(code["functions"])
        assert [words(row["field"])[0] for row in table("Functions of a worker", "field")] == code["exhausted_job"]


def test_the_keys_of_the_configuration_file(code: Any, language: str) -> None:
    heads = ["key", "key of Ruby"] if language == "Ruby" else ["key"]
    keys = [words(row[head])[0] for head in heads for row in table("The file of -C", head)]
    assert code["unknown_key"].endswith(f"unknown key nothing; known are {', '.join(keys)}")


def test_the_fields_of_a_log_line(code: Any) -> None:
    rows = table("The log", "field")
    line = json.loads(code["json"])
    assert list(line) == [words(row["field"])[0] for row in rows]
    by_place = [words(row["field"])[0] for row in sorted(rows, key=lambda row: int(row["place in the text"]))]
    text = code["text"].split()
    assert [word.split("=")[0] for word in text[2:8]] == by_place[2:8]
    assert (text[0], text[7], text[8], " ".join(text[9:])) == (line["lvl"], "elapsed=0.500", line["event"], line["msg"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text[1]) and by_place[:2] == ["lvl", "ts"]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the core says of its settings."""
    program = tmp_path_factory.mktemp("core") / "settings_probe"
    libraries = shlex.split(subprocess.run(["pkg-config", "--libs", "hiredis"], check=True, capture_output=True, text=True).stdout)
    subprocess.run(["cc", "-std=c99", "-Icore/include", "-Icore/src", "spec/docs/settings_probe.c", "core/src/all.c", "-o", program,
                    *libraries, "-lm", "-pthread"], cwd=ROOT, check=True)
    return json.loads(subprocess.run([program], check=True, capture_output=True).stdout)


def test_the_settings_of_a_queue_are_those_of_the_core(core: Any) -> None:
    rows = settings(("Settings that belong to the queue",), "C")
    found = {name: told for name, told in core["queue"].items() if name not in ("", "exhausted_hook")}
    assert found.keys() == rows.keys()
    for name, row in rows.items():
        expected = (default(row) or 0, *(limits(row) or (0, 1 if row["value"] == "flag" else 0)), words(row["range"]))
        told = found[name]
        low = limits(row)[0] if row["value"].endswith(" or nil") else told["low"]  # where 0 stands for nil
        assert (told["default"], low, told["high"], told["words"]) == expected, name
    others = settings(WORKER_SECTIONS, "C")
    for name in ("shards_count", "batch_size", "priority"):
        assert core[name] == default(others[name]), name


def test_retry_in(core: Any) -> None:
    for row in table("retry_in", "count"):
        assert core["back_off"][int(row["count"])] == [float(row["shortest"]), float(row["longest"])]
    assert round(sum(sum(both) / 2 for both in core["back_off"]) / 86400) == 20


def test_what_the_page_names_in_c_is_in_the_header() -> None:
    header = (ROOT / "core/include/seriatim.h").read_text()
    rows = table("In C", "setting")
    assert set(words(" ".join(row["setting"] for row in rows))) <= set(settings(MODULE_SECTIONS, "C"))
    for name in words(" ".join(row["in C"] for row in rows)):
        assert re.search(rf"\b{name}\b", header), name


def sources() -> Iterator[tuple[Path, str]]:
    for pattern in SOURCES:
        for path in ROOT.glob(pattern):
            yield path, path.read_text()


def test_every_environment_variable_is_named() -> None:
    reads = re.compile(r"\bENV\b|\bENVIRONMENTS?\b|os\.environ|getenv|\bvariable\(")
    read = {
        name for _, text in sources() for line in text.splitlines()
        if reads.search(line) and not line.lstrip().startswith(("#", "--"))
        for group in re.findall(r'"([^"]*)"|%w\[([^]]*)\]', line) for name in " ".join(group).split() if re.fullmatch(r"[A-Z_]{4,}", name)
    }
    assert read == {words(row["variable"])[0] for row in table("Environment variables", "variable")}


def test_every_event_of_the_log_is_named() -> None:
    logged = re.compile(r"""\b_?[Ll]og\.(?:debug|info|warn|error|write)\((?:[\w.:]+, )?["']([a-z]+)["']|\blog_?(?:event)?\("([a-z]+)", |_log_event\("([a-z]+)"\)""")
    found = {name for path, text in sources() if path.suffix != ".c" for groups in logged.findall(text) for name in groups if name}
    header = (ROOT / "core/include/seriatim.h").read_text()
    kinds = {kind.lower() for kind in re.findall(r"SERIATIM_EVENT_([A-Z]+)", header)}
    limit = {"dead", "parked", "dropped"}  # seriatim_runner_failure
    assert limit <= set(re.findall(r'"([a-z]+)"', header))
    expected = found | limit | {{"recovered": "recover", "failures": "fail"}.get(kind, kind) for kind in kinds}
    assert {words(row["event"])[0] for row in table("The log", "event")} == expected


def test_no_row_is_too_wide() -> None:
    assert [line for line in PAGE.read_text().splitlines() if line.startswith("|") and len(line) > WIDTH] == []


def test_the_page_is_linked() -> None:
    assert "(docs/guides/configuration.md)" in (ROOT / "README.md").read_text()
