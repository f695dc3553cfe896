"""Find the Python interpreters that the Makefile asks for."""

import glob
import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)


def version(command):
    """The (major, minor) version of an interpreter, or None where the command does not run (a pyenv shim may not)."""
    ask = "import sys; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run([command, "-c", ask], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    return tuple(map(int, answer.stdout.split())) if answer.returncode == 0 else None


def candidates(wanted):
    """Commands that may be Python `wanted` ("3.13"): this one, one on the path, pyenv's."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    yield sys.executable
    yield f"python{wanted}"
    yield from sorted(glob.glob(f"{root}/versions/{wanted}*/bin/python"), reverse=True)


def find(wanted):
    """The path of an interpreter of version `wanted`; pyenv installs one where there is none."""
    pair = tuple(map(int, wanted.split(".")))
    for command in candidates(wanted):
        if version(command) == pair:
            return shutil.which(command)
    if shutil.which("pyenv"):
        subprocess.run(["pyenv", "install", "--skip-existing", wanted], stdout=sys.stderr)
        for command in candidates(wanted):
            if version(command) == pair:
                return shutil.which(command)
    sys.exit(f"No Python {wanted} here. Install one (pyenv install {wanted}) or put python{wanted} on the PATH.")


def check():
    """Stop with a message where this interpreter cannot make the course's environment."""
    if sys.version_info < OLDEST:
        sys.exit(f"Unrolled needs Python 3.11 or newer, and this is {sys.version.split()[0]} ({sys.executable}).\n"
                 "Name another one: make PYTHON=python3.12 book")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        sys.exit(f"{sys.executable} cannot make virtual environments. On Debian: apt-get install python3-venv")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        check()
    elif len(sys.argv) == 2:
        print(find(sys.argv[1]))
    else:
        sys.exit("usage: interpreter.py --check | interpreter.py 3.13")
