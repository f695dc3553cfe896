"""The notebooks: executed in order, clean, in the normal form, with every part that a chapter must have."""

import configparser
import copy
import json
import re
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import address  # noqa: E402
import notebooks  # noqa: E402

CHAPTERS = sorted((ROOT / "book").glob("[0-9]*.ipynb"))
START = f"""import sys
if "google.colab" in sys.modules:
    %pip install -q "{address.current().install()}"
from unrolled import runtime
runtime.start()"""

ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
PATH = re.compile(r"(?<![\w.:/<-])/(?:home|root|tmp|usr|opt|var|mnt|work|content|Users|private)/")
RAW_FLOAT = re.compile(r"\d\.\d{7,}")
CLOCK = re.compile(r"\b\d{1,2}:\d\d:\d\d\b|\bit/s\b|\b20\d\d-\d\d-\d\d\b")
HEAD = ("objective", "prerequisite", "minutes", "hardware")
TAIL = {"take-aways": r"take-?aways", "self-check": r"check yourself|self-check", "limits": r"where (this|it) breaks", "next": r"\bnext\b|further reading"}
ALTERNATIVE = re.compile(r"<svg[^>]* role='img'[^>]* aria-label='[^']{20,}'|<svg[^>]* aria-label='[^']{20,}'[^>]* role='img'")
INTERACTIVE = "u-explore"


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "markdown"]


def words(cell):
    """How many words a text cell has on the page, a formula counting as one, folded text and marks of a lab's regions as none."""
    text = re.sub(r"(?ms)^(:{3,}|`{3,})\{dropdown\}.*?^\1$|<details>.*?</details>|^### (?:BEGIN|END) SOLUTION[^\n]*", "", cell.source)
    text = re.sub(r"!\[[^]]*\]\([^)\s]*\)|\]\([^)\s]*\)", "]", text)
    return len(re.findall(r"[^\W_]+(?:[’'-][^\W_]+)*", re.sub(r"\$\$.*?\$\$|\$[^$]*\$|\{[\w:]+\}", " formula ", text, flags=re.DOTALL)))


def is_figure(output):
    data = output.get("data", {})
    return any(kind.startswith("image/") for kind in data) or "<svg" in data.get("text/html", "")


def shown(output):
    """All texts of an output that a reader may see."""
    data = output.get("data", {})
    return [output.get("text", "")] + [data[kind] for kind in ("text/plain", "text/markdown", "text/latex") if kind in data]


def longest(cell):
    """The words that a text cell may have, or the lines of a code cell."""
    return 160 if cell.cell_type == "markdown" else 25


def cleanliness(notebook, longest=longest):
    """What is wrong with a notebook's cells, as sentences; each says which cell."""
    code = code_cells(notebook)
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        yield f"not executed in order 1..{len(code)}"
    if not code or code[0].source != START:
        yield "the first code cell is not the start-up cell"
    if "widgets" in notebook.metadata:
        yield "widget state in the metadata"
    for cell in text_cells(notebook):
        if words(cell) > longest(cell):
            yield f"{cell.id}: a text of {words(cell)} words"
        if cell.get("attachments"):
            yield f"{cell.id}: an attachment"
    for cell in code:
        if (lines := len(cell.source.splitlines())) > longest(cell):
            yield f"{cell.id}: code of {lines} lines"
        for output in cell.outputs:
            yield from (f"{cell.id}: {problem}" for problem in output_faults(output))


def figures(notebook):
    """What is wrong with a chapter's figures, as sentences."""
    code = code_cells(notebook)
    for cell in code:
        yield from (f"{cell.id}: {problem}" for problem in figure_faults(cell))
    names = [cell.metadata.get("mystnb", {}).get("figure", {}).get("name") for cell in code]
    if repeated := {name for name in names if name and names.count(name) > 1}:
        yield f"figures share the name {sorted(repeated)}"


def output_faults(output):
    """What is wrong with one output."""
    if output.output_type == "error":
        yield "an error"
    if output.get("name") == "stderr":
        yield "stderr"
    if any("widget" in kind for kind in output.get("data", {})):
        yield "a widget"
    for text in shown(output):
        for what, pattern in {"address": ADDRESS, "path": PATH, "raw float": RAW_FLOAT, "time": CLOCK}.items():
            if found := pattern.search(text):
                yield f"{what} {found[0]!r} in an output"
    if is_figure(output):
        if not ALTERNATIVE.search(output.data.get("text/html", "")):
            yield "a figure without an alternative text"
        if len(output.data.get("text/plain", "")) < 20 or "image/png" not in output.data:
            yield "a figure without a description or a picture"


def figure_faults(cell):
    """What a chapter's figure lacks besides what every figure has; nothing for a cell without one."""
    figures = [output for output in cell.outputs if is_figure(output)]
    settings = cell.metadata.get("mystnb", {})
    name, caption = (settings.get("figure", {}).get(key, "") for key in ("name", "caption"))
    if not figures:
        if settings.get("figure"):
            yield "a caption without a figure"
        return
    if len(cell.outputs) != 1:
        yield "a figure beside other outputs"
    if not re.fullmatch(r"fig-[a-z0-9-]+", name):
        yield f"a figure of the name {name!r}"
    if len(caption.split()) < 3:
        yield "a figure without a caption"


def parts(notebook):
    """The parts of a chapter that are missing, as sentences."""
    code = [place for place, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    head = "\n".join(cell.source for cell in notebook.cells[:code[1]] if cell.cell_type == "markdown")
    if code[0] != 1 or not notebook.cells[0].source.startswith("# "):
        yield "no title before the start-up cell"
    for part in HEAD:
        if part not in head.lower():
            yield f"nothing like {part!r} in the head"
    text = "\n\n".join(cell.source for cell in text_cells(notebook))
    sections = {}
    for section in re.split(r"(?m)^(?=## )", text)[1:]:
        title, _, body = section.partition("\n")
        sections[title.lower()] = body
    for part, pattern in TAIL.items():
        found = [body for title, body in sections.items() if re.search(pattern, title)]
        if not found:
            yield f"no section like {part!r}"
        elif part == "self-check" and not re.search(r"\{dropdown\}", found[-1]):
            yield "a self-check without folded answers"
        elif part == "take-aways" and len(re.findall(r"(?m)^(?:[-*]|\d+\.) ", found[-1])) != 3:
            yield "not three take-aways"
    if not any("assert " in cell.source for cell in code_cells(notebook)):
        yield "nothing is asserted"


def substance(notebook):
    """What a real chapter has beyond the smallest one."""
    text = "\n\n".join(cell.source for cell in text_cells(notebook))
    interactive = [cell for cell in code_cells(notebook) for output in cell.outputs if INTERACTIVE in output.get("data", {}).get("text/html", "")]
    if len(interactive) < 2:
        yield f"{len(interactive)} interactive figures"
    if "{cite:" not in text:
        yield "no citation"
    if not re.search(r"(?i)\*{0,2}predict", text):
        yield "nothing to predict"
    check = re.split(r"(?mi)^## .*(?:check yourself|self-check).*$", text)[-1].split("\n## ")[0]
    if (count := len(re.findall(r"\{dropdown\}", check))) < 5:
        yield f"{count} folded answers in the self-check"


# ---------------------------------------------------------------- the chapters


def test_there_is_a_chapter():
    assert CHAPTERS


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_is_clean_and_whole(path):
    notebook = notebooks.read(path)
    nbformat.validate(notebook)
    assert [*cleanliness(notebook), *figures(notebook), *parts(notebook), *substance(notebook)] == []


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_is_in_the_normal_form(path):
    stored = path.read_bytes().decode()
    assert notebooks.text(notebooks.normal(notebooks.read(path))) == stored, "make execute writes it"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_nbval_leaves_out_drawings_and_nothing_else(path):
    settings = configparser.ConfigParser()
    settings.read(ROOT / "tests/nbval.cfg")
    pattern = re.compile(settings["figures"]["regex"])
    for cell in code_cells(notebooks.read(path)):
        for output in cell.outputs:
            for kind, content in output.get("data", {}).items():
                assert (kind == "text/html") == bool(pattern.match(content)), f"{cell.id}, {kind}"
            assert not pattern.search(output.get("text", ""))


# ---------------------------------------------------------------- the examples of CONTRIBUTING.md


def example(title, until):
    """The notebook that a section of CONTRIBUTING.md spells out, block by block."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split(f"\n## {until}\n")[0]
    cells, metadata = [], {}
    for _, kind, body in re.findall(r"(?ms)^(`{3,4})(markdown|python|json)\n(.*?)\n\1$", text):
        if kind == "json":
            metadata = json.loads(body)
        elif kind == "markdown":
            cells.append(nbformat.v4.new_markdown_cell(body))
        else:
            cells.append(nbformat.v4.new_code_cell(body, metadata=metadata))
            metadata = {}
    return nbformat.v4.new_notebook(cells=cells)


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The smallest chapter, executed and in the normal form."""
    return notebooks.normal(notebooks.execute(example("The smallest chapter", "The smallest figure"), tmp_path_factory.mktemp("example")))


def test_smallest_chapter_is_a_chapter(executed):
    assert [*cleanliness(executed), *figures(executed), *parts(executed)] == []
    assert INTERACTIVE in executed.cells[5].outputs[0].data["text/html"]


def test_smallest_figure_is_a_figure(tmp_path):
    notebook = notebooks.normal(notebooks.execute(example("The smallest figure", "The smallest exercise"), tmp_path))
    (cell,) = notebook.cells
    assert list(figure_faults(cell)) == [] and list(output_faults(cell.outputs[0])) == []


@pytest.mark.slow
def test_executing_twice_gives_the_same_bytes(executed, tmp_path):
    again = notebooks.normal(notebooks.execute(copy.deepcopy(executed), tmp_path))
    assert notebooks.text(again) == notebooks.text(executed)


def put(place, value):
    """A change of a notebook: the value goes to the place, a path such as "cells.1.source"."""
    def change(notebook):
        *way, last = [int(step) if step.isdigit() else step for step in place.split(".")]
        target = notebook
        for step in way:
            target = target[step]
        target[last] = value
    return change


def output(**data):
    return nbformat.v4.new_output("display_data", data={key.replace("_", "/"): value for key, value in data.items()})


def stream(text, name="stdout"):
    return [nbformat.v4.new_output("stream", text=text, name=name)]


FAULTS = {
    "not executed in order": put("cells.3.execution_count", 7),
    "not the start-up cell": put("cells.1.source", "import jax"),
    "widget state": put("metadata.widgets", {}),
    "a text of 200 words": put("cells.2.source", "word " * 200),
    "an attachment": put("cells.2.attachments", {"x.png": {}}),
    "code of 26 lines": put("cells.3.source", "x\n" * 26),
    "an error": put("cells.3.outputs", [nbformat.v4.new_output("error", ename="E", evalue="e", traceback=[])]),
    "stderr": put("cells.3.outputs", stream("hm", "stderr")),
    "a widget": put("cells.3.outputs", [nbformat.v4.new_output("display_data", data={"application/vnd.jupyter.widget-view+json": {}})]),
    "address": put("cells.3.outputs", stream("<object at 0x7f3a2b1c>")),
    "path": put("cells.3.outputs", stream("wrote /tmp/x")),
    "raw float": put("cells.3.outputs", stream("0.12345678")),
    "time": put("cells.3.outputs", stream("at 12:30:01")),
    "a caption without a figure": put("cells.5.outputs", []),
    "beside other outputs": put("cells.5.outputs", stream("x") + [output(text_html="<svg>", text_plain="a description of it")]),
    "of the name 'leak'": put("cells.5.metadata.mystnb.figure.name", "leak"),
    "without a caption": put("cells.5.metadata.mystnb.figure.caption", ""),
    "without an alternative text": put("cells.5.outputs", [output(text_html="<svg role='img'>", text_plain="a description of it")]),
    "without a description": put("cells.5.outputs", [output(text_html="<svg>", image_png="")]),
    "share the name": put("cells.3.metadata.mystnb", {"figure": {"name": "fig-leak"}}),
    "no title": put("cells.0.source", "Objectives, prerequisites, minutes, hardware"),
    "'objective' in the head": put("cells.0.source", "# T\nprerequisites, minutes, hardware"),
    "'hardware' in the head": put("cells.0.source", "# T\nobjectives, prerequisites, minutes"),
    "like 'take-aways'": put("cells.8.source", "## Check yourself"),
    "without folded answers": put("cells.8.source", "## Check yourself\n1. x"),
    "not three take-aways": put("cells.8.source", "## Take-aways\n- one"),
    "nothing is asserted": put("cells.7.source", "x"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found(executed, fault):
    notebook = copy.deepcopy(executed)
    FAULTS[fault](notebook)
    assert any(fault in found for found in [*cleanliness(notebook), *figures(notebook), *parts(notebook)])


# ---------------------------------------------------------------- the normal form


def rough():
    """A notebook as an editor may leave it."""
    notebook = nbformat.v4.new_notebook(metadata={"widgets": {"state": 1}, "kernelspec": {"name": "mine", "display_name": "M"}})
    code = nbformat.v4.new_code_cell("print(1)\n", execution_count=9, metadata={"execution": {"iopub.status": "now"}, "tags": ["x"], "colab": {"y": 1}})
    code.outputs = [nbformat.v4.new_output("stream", text="a"), nbformat.v4.new_output("stream", text="b\n"),
                    nbformat.v4.new_output("execute_result", data={"text/plain": "1"}, execution_count=9, metadata={"t": 1})]  # fmt: skip
    notebook.cells = [nbformat.v4.new_markdown_cell("# T", id="keep-me"), code, nbformat.v4.new_markdown_cell("# T", id="keep-me")]
    return notebook


def test_normal_form():
    normal = notebooks.normal(rough())
    first, code, last = normal.cells
    assert first.id == "keep-me" and last.id != "keep-me" and len({first.id, code.id, last.id}) == 3
    assert code.execution_count == 1 and code.metadata == {"tags": ["x"]} and code.source == "print(1)"
    assert [entry.get("text") for entry in code.outputs] == ["ab\n", None]
    assert code.outputs[1].execution_count == 1 and code.outputs[1].metadata == {}
    assert set(normal.metadata) == {"accelerator", "colab", "kernelspec", "language_info"}
    assert normal.metadata.kernelspec.name == "python3"
    nbformat.validate(normal)


def test_normal_form_is_stable():
    once = notebooks.text(notebooks.normal(rough()))
    assert notebooks.text(notebooks.normal(nbformat.reads(once, as_version=4))) == once
    assert once.endswith("}\n") and not once.endswith("\n\n")


def test_new_ids_come_from_the_text():
    def ids():
        cells = [nbformat.v4.new_markdown_cell(text) for text in ("a", "b", "a")]
        for cell in cells:
            cell["id"] = "not valid!"
        notebook = nbformat.v4.new_notebook()
        notebook.cells = cells
        return [cell.id for cell in notebooks.normal(notebook).cells]

    assert ids() == ids() and len(set(ids())) == 3


def test_stripped_form_has_no_outputs():
    (code,) = [cell for cell in notebooks.normal(rough(), executed=False).cells if cell.cell_type == "code"]
    assert code.outputs == [] and code.execution_count is None


def test_a_warning_is_not_stored(tmp_path):
    path = tmp_path / "loud.ipynb"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import sys; print('beware', file=sys.stderr)", id="loud")])
    path.write_text(notebooks.text(notebook))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"cell 0 \(loud\) wrote to stderr"):
        notebooks.main([str(path)])
    assert path.read_bytes() == before


def test_not_a_notebook_is_an_error(tmp_path):
    (tmp_path / "x.ipynb").write_text("{")
    with pytest.raises(ValueError, match="x.ipynb is not a notebook"):
        notebooks.read(tmp_path / "x.ipynb")
