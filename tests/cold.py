"""Run the chapters as a learner does in Colab: nothing of ours installed, Run all.

    python tests/cold.py .venv-colab tests/constraints/colab.txt

The environment holds exactly what Colab brings. The Colab copies are made from a clone of this repository, and their
install line is really executed: git is told to take the repository's address from the clone. Every copy is run twice,
as it stands, and in static mode, where its texts must be the stored ones. In the end nothing that Colab brought may
have another version.
"""

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
    """Run a notebook in the environment of this interpreter and store what came out. Called in Colab's environment."""
    from nbclient.exceptions import CellExecutionError

    path = Path(path)
    try:
        notebook = notebooks.execute(notebooks.read(path), path.parent, static=os.environ.get("UNROLLED_STATIC") == "1")
    except CellExecutionError as problem:
        sys.exit(re.sub(r"\x1b\[[\d;]*m", "", str(problem)))
    path.write_text(notebooks.text(notebook), encoding="utf-8")


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
        for static in (False, True):
            for path in colab.make(folder / ("static" if static else "live"), commit, site):
                start = time.perf_counter()
                stored = notebooks.read(path)
                mode = {"UNROLLED_STATIC": "1"} if static else {}
                if subprocess.run([python, __file__, "--run", str(path)], env={**variables, **mode}, cwd=folder).returncode:
                    sys.exit(f"{path.name} does not run on Colab's versions.")
                if static and (messages := differences(stored, notebooks.read(path))):
                    sys.exit(f"{path.name} shows other texts on Colab's versions than the stored ones:\n" + "\n".join(messages))
                print(f"{path.name}, {'texts as stored' if static else 'run as it stands'}: {time.perf_counter() - start:.0f} s")
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
