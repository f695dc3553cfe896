"""Execute notebooks in place and write them in one normal form, so that a change in a notebook is a change in its text.

    python book/_ext/notebooks.py book/01_vanilla_rnn.ipynb …          execute, then write
    python book/_ext/notebooks.py --format book/01_vanilla_rnn.ipynb … only write in the normal form
"""

import copy
import hashlib
import os
import re
import sys
import time
from pathlib import Path

import nbformat

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python", "pygments_lexer": "ipython3"}
IDENTIFIER = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CELL_METADATA = ("mystnb", "nbgrader", "tags")
MINUTES = 5


def normal(notebook, executed=True):
    """The normal form of a notebook: stable cell ids, counts 1..n, and nothing that depends on when or where it ran."""
    notebook = copy.deepcopy(notebook)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict({
        "accelerator": "GPU",
        "colab": {"provenance": []},
        "kernelspec": KERNEL,
        "language_info": LANGUAGE,
    })
    taken = set()
    count = 0
    for cell in notebook.cells:
        cell["id"] = identifier(cell, taken)
        cell.metadata = {key: cell.metadata[key] for key in CELL_METADATA if cell.metadata.get(key)}
        cell.source = cell.source.strip("\n")
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count if executed else None
            cell.outputs = [normal_output(output, count) for output in joined(cell.outputs)] if executed else []
    return notebook


def identifier(cell, taken):
    """The cell's own id where it is valid and not yet taken, else one made from its text."""
    own = cell.get("id", "")
    if not IDENTIFIER.fullmatch(own) or own in taken:
        repeat = 0
        while (own := hashlib.sha256(f"{cell.source}{repeat}".encode()).hexdigest()[:8]) in taken:
            repeat += 1
    taken.add(own)
    return own


def joined(outputs):
    """The outputs with neighbouring pieces of one stream put together: where they break depends on timing."""
    result = []
    for output in outputs:
        if output.output_type == "stream" and result and result[-1].get("name") == output.name:
            result[-1].text += output.text
        else:
            result.append(output)
    return result


def normal_output(output, count):
    """An output without what its execution left in it."""
    if output.output_type == "execute_result":
        output.execution_count = count
    if "metadata" in output:
        output.metadata = {}
    return output


def text(notebook):
    """The notebook as the text of its file: sorted keys, one space of indentation, a line end at the end."""
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def read(path):
    """The notebook in a file; ValueError with the file's name where there is none."""
    try:
        return nbformat.read(path, as_version=4)
    except (ValueError, nbformat.ValidationError) as problem:
        raise ValueError(f"{path} is not a notebook: {problem}") from problem


def execute(notebook, folder, static=True):
    """The notebook with the outputs of a fresh kernel, run from the first cell to the last; in static mode, as it is stored."""
    from nbclient import NotebookClient

    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    place, quiet = {"metadata": {"path": str(folder)}}, ["--log-level=ERROR"]
    NotebookClient(notebook, timeout=60 * MINUTES, kernel_name="python3", resources=place, extra_arguments=quiet).execute(
        env={**os.environ, "UNROLLED_STATIC": "1" if static else "0"})
    return notebook


def complain(notebook, path):
    """ValueError where a cell wrote to stderr: a warning on a reader's page."""
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise ValueError(f"{path}, cell {number} ({cell['id']}) wrote to stderr:\n{output.text}\n"
                                 "Nothing was stored. Make the cell quiet, then run it again.")


def main(arguments):
    run = "--format" not in arguments
    for path in [Path(argument) for argument in arguments if argument != "--format"]:
        start = time.perf_counter()
        notebook = read(path)
        if run:
            notebook = execute(notebook, path.parent)
        notebook = normal(notebook)
        complain(notebook, path)
        path.write_text(text(notebook), encoding="utf-8")
        print(f"{path}: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as problem:
        sys.exit(str(problem))
