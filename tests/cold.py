"""Run the chapters and labs as a learner does in Colab: nothing of ours installed, Run all.

    python tests/cold.py .venv-colab tests/constraints/colab.txt

The environment holds exactly what Colab brings. The Colab copies are made from a clone of this repository, and their
install line is really executed: git is told to take the repository's address from the clone. Every copy of a chapter is
run twice, as it stands, and in static mode, where its texts must be the stored ones. A lab's copy is run as it stands, up
to its first stub, and with the solutions of its master, where its texts must be the master's. In the end nothing that
Colab brought may have another version.
"""

import ast

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import notebooks  # noqa: E402

OURS = {"unrolled", "jaxtyping", "wadler-lindig"}
TEXTS = ("text/plain", "text/markdown", "text/latex")


def name(line):
    """The package that a line of `pip freeze` is about."""
    return re.split(r"==| @ ", line)[0].lower().replace("_", "-")


def installed(python):
    """What is installed, as {package: line of pip freeze}."""
    freeze = subprocess.run([python, "-m", "pip", "freeze", "--all"], capture_output=True, text=True, check=True).stdout
    return {name(line): line for line in freeze.splitlines() if name(line) != "pip"}


def git(*words, folder=None):
    return subprocess.run(["git", "-C", str(folder or ROOT), *words], capture_output=True, text=True, check=True).stdout


def clone(folder):
    """Clone the repository, with the changes of the working tree as a commit of the clone alone; return its commit."""
    git("clone", "--quiet", str(ROOT), str(folder))
    if git("status", "--porcelain"):
        print("There are uncommitted changes; they are tested as a commit of a temporary clone.")
        names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
        for path in filter(None, names):
            if (ROOT / path).is_file():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, folder / path)
            else:
                (folder / path).unlink(missing_ok=True)
        git("add", "--all", folder=folder)
        git("-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "-m", "Uncommitted changes", folder=folder)
    return git("rev-parse", "HEAD", folder=folder).strip()


def stand_in(folder):
    """A folder for PYTHONPATH that makes a kernel look like Colab's, where google.colab is always imported."""
    (folder / "google" / "colab").mkdir(parents=True)
    (folder / "google" / "colab" / "__init__.py").write_text('"""A stand-in for Colab\'s own module."""\n')
    (folder / "google" / "colab" / "output.py").write_text('"""Imported by JAX where it finds Colab."""\n')
    (folder / "sitecustomize.py").write_text("import google.colab  # noqa: F401\n")
    return folder


def environment(folder, source, url):
    """Variables for a kernel: Colab's stand-in, and the repository's address leading to the clone."""
    count = int(os.environ.get("GIT_CONFIG_COUNT", 0))
    found = dict(os.environ)
    found.pop("UNROLLED_STATIC", None)
    found.update({
        "PYTHONPATH": str(folder),
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": f"url.{source.as_uri()}.insteadOf",
        f"GIT_CONFIG_VALUE_{count}": url,
    })
    return found


def run(path):
    """Run a notebook in the environment of this interpreter and store what came out, up to an error. Called in Colab's environment."""
    from nbclient.exceptions import CellExecutionError

    path, notebook, words = Path(path), notebooks.read(path), 0
    try:
        notebooks.execute(notebook, path.parent, static=os.environ.get("UNROLLED_STATIC") == "1")
    except CellExecutionError as problem:
        words = re.sub(r"\x1b\[[\d;]*m", "", str(problem))
    path.write_text(notebooks.text(notebook), encoding="utf-8")
    sys.exit(words)


def texts(cell):
    """The texts that a code cell shows: streams, and every output's plain forms."""
    shown = []
    for output in notebooks.joined(cell.outputs):
        if output.output_type == "stream":
            shown.append((output.name, output.text))
        else:
            shown += [(kind, output.data[kind]) for kind in TEXTS if kind in output.get("data", {})]
    return shown


def differences(stored, fresh):
    """Messages about the code cells whose texts are not the stored ones; the installer may speak in the first."""
    messages = []
    pairs = [(a, b) for a, b in zip(stored.cells, fresh.cells) if a.cell_type == "code"]
    for number, (old, new) in enumerate(pairs, 1):
        was, now = texts(old), texts(new)
        if number == 1:
            is_same = "".join(text for _, text in now).endswith("".join(text for _, text in was))
        else:
            is_same = was == now
        if not is_same:
            messages.append(f"code cell {number} ({old['id']})\n  stored: {was}\n  here:   {now}")
    return messages


def execute(python, path, variables):
    """Run a notebook in an environment: the notebook with its outputs, and what stopped it, or ""."""
    answer = subprocess.run([python, __file__, "--run", str(path)], env=variables, cwd=path.parent, capture_output=True, text=True)
    return notebooks.read(path), answer.stderr if answer.returncode else ""


def stub(notebook):
    """What the first stub of a student copy says."""
    source = next(cell.source for cell in notebook.cells if cell.cell_type == "code" and "raise NotImplementedError" in cell.source)
    return ast.literal_eval(re.search(r"raise NotImplementedError(\(.*\))", source)[1])


def stop(notebook):
    """What is wrong with where a student copy stopped, or "": its first stub must say what to write, and all cells before it must run."""
    wanted = stub(notebook)
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        errors = [output for output in cell.outputs if output.output_type == "error"]
        if errors and (errors[0].ename, errors[0].evalue) == ("NotImplementedError", wanted):
            return ""
        if errors or not cell.execution_count:
            return f"cell {cell['id']} {f'ended with {errors[0].ename}: {errors[0].evalue}' if errors else 'did not run'}. Expected the stub's words: {wanted}"
    return f"no cell met a stub. Expected its words: {wanted}"


def solved(copy, master):
    """A student copy with the solutions of its master, and the master's outputs but for what hidden tests say."""
    answers = {cell["id"]: cell for cell in master.cells}
    for cell in (cell for cell in copy.cells if cell.cell_type == "code"):
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = answers[cell["id"]].source
        cell.outputs = answers[cell["id"]].outputs
        for output in cell.outputs:
            if output.output_type == "stream":
                output.text = re.sub(r"(?m)^\w+: hidden checks passed\.\n", "", output.text)
    return copy


def as_it_stands(path, master, python, variables):
    """What is wrong with a copy's run as it stands, or "". A lab's is to stop at its first stub."""
    fresh, problem = execute(python, path, variables)
    if master:
        wrong = stop(fresh)
        return wrong and f"{wrong}\n{problem}"
    return problem


def as_stored(path, master, python, variables):
    """What is wrong with a copy's run in static mode, whose texts are to be the stored ones, or "". A lab's runs with its solutions."""
    stored = notebooks.read(path)
    if master:
        stored = solved(stored, notebooks.read(master))
        path.write_text(notebooks.text(stored), encoding="utf-8")
    fresh, problem = execute(python, path, {**variables, "UNROLLED_STATIC": "1"})
    return problem or "\n".join(differences(stored, fresh))


def master_of(path, folder):
    """The master of the lab whose copy is at a path below a folder; None for a chapter's copy."""
    place = path.relative_to(folder)
    return ROOT / "labs" / "source" / Path(*place.parts[2:]) if place.parts[0] == "labs" else None


def main(venv, constraints):
    import address
    import colab

    python = str(Path(venv).absolute() / "bin" / "python")
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "uninstall", "--quiet", "--yes", *sorted(OURS)],
                   capture_output=True, check=True)  # fmt: skip
    before = installed(python)
    expected = {name(line): line for line in Path(constraints).read_text().splitlines() if line and not line.startswith("#")}
    if before != expected:
        sys.exit(f"{venv} is not what {constraints} says: {sorted(set(before.values()) ^ set(expected.values()))}\n"
                 f"Remove {venv} and try again.")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        commit = clone(folder / "clone")
        variables = environment(stand_in(folder / "stand_in"), folder / "clone", address.current().url)
        site = colab.load()
        for problem_of, way in ((as_it_stands, "as it stands"), (as_stored, "texts as stored")):
            place = folder / problem_of.__name__
            for path in colab.make(place, commit, site):
                start = time.perf_counter()
                if problem := problem_of(path, master_of(path, place), python, variables):
                    sys.exit(f"{path.name}, {way}, on Colab's versions: {problem}")
                print(f"{path.name}, {way}: {time.perf_counter() - start:.0f} s", flush=True)
    after = installed(python)
    changed = {key: after.get(key) for key in before if after.get(key) != before[key]}
    added = set(after) - set(before)
    if changed or not added <= OURS or "unrolled" not in added:
        sys.exit(f"The install line changed {changed or 'nothing'} and added {sorted(added)}; it may add {sorted(OURS)} alone.")
    print(f"Installed by the first cell: {', '.join(sorted(added))}. Nothing else changed.")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--run":
        run(sys.argv[2])
    elif len(sys.argv) == 3:
        main(*sys.argv[1:])
    else:
        sys.exit("usage: cold.py environment constraints")
