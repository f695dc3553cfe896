"""The child of a grading: runs the cells of a submission, and calls its functions when the parent asks.

    python -I -S child.py folder request reply packages …

It is started from a folder of its own (see `stage`) and gets that folder, two pipes, and the folders of the installed
packages. Requests come one at a time; each is answered before the next.

Nothing here is trusted by the parent, for the student's code lives in the same process and can change all of it. What
stands below keeps mistakes and plain tricks from having an effect: the names that the calls rest on are put back before
each call, files of the course are not opened, and no other program is started.
"""

import _posixsubprocess
import builtins
import functools
import importlib
import importlib.util
import inspect
import os
import subprocess
import sys
import types

PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn", "ctypes.dlopen"}
FILES = {"open", "os.listdir", "os.scandir", "os.rename", "os.link", "sqlite3.connect"}


def fence(closed):
    """Refuses, from now on, to open what is in the closed places and to start other programs. Python has no call that undoes it."""
    # Looked up here, once: the student's code can change what a name means later.
    realpath, isabs, decode, is_a, refusal = os.path.realpath, os.path.isabs, os.fsdecode, isinstance, PermissionError
    places, programs, files, kinds = tuple(closed), frozenset(PROGRAMS), frozenset(FILES), (str, bytes, os.PathLike)

    def hook(event, arguments):
        if event in programs or event == "object.__setattr__" and arguments[0] is hook:
            raise refusal("no other program is started where labs are graded")
        if event in files and is_a(arguments[0], kinds):
            given = decode(arguments[0])
            real = realpath(given)
            beside = event == "open" and arguments[1] is None and not isabs(given)  # os.open, perhaps beside another folder
            if beside or real.endswith(".pth"):
                raise refusal("this file is not for reading where labs are graded")
            for place in places:
                if real == place or real.startswith(place + "/"):
                    raise refusal("this file is not for reading where labs are graded")

    sys.addaudithook(hook)
    _posixsubprocess.fork_exec = subprocess._fork_exec = lambda *arguments: hook("os.fork", arguments)  # has no event of its own


class Shell:
    """Stands in for IPython's: a magic over a whole cell runs the cell; other magics and system commands do nothing."""

    def __init__(self, run):
        self._run = run

    def run_cell_magic(self, name, line, cell):
        self._run(cell)

    def __getattr__(self, name):
        return lambda *arguments, **settings: None


def notebook():
    """A namespace for a notebook's cells, and the function that runs one in it."""
    from IPython.core.inputtransformer2 import TransformerManager

    main = sys.modules["__main__"] = types.ModuleType("__main__")
    transform = TransformerManager().transform_cell

    def run(source):
        exec(compile(transform(source), "<cell>", "exec"), vars(main))

    main.get_ipython = lambda: Shell(run)
    main.display = lambda *arguments, **settings: None
    return vars(main), run


def private(folder):
    """The module `unrolled.checks.calls`, in a copy that no import leads to."""
    spec = importlib.util.spec_from_file_location("calls", f"{folder}/unrolled/checks/calls.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def found(name):
    """The object that "module:name" stands for."""
    module, _, name = name.partition(":")
    return getattr(importlib.import_module(module), name)


def describe(problem):
    """An exception in words, not too many."""
    name = type(problem).__name__
    try:
        return (f"{problem}" if name == "Wrong" else f"{name}: {problem}")[:2000]
    except BaseException:
        return name


def attempt(action, *arguments):
    """What an action returns, and "" or the error that it raised, in words."""
    try:
        return action(*arguments), ""
    except BaseException as problem:  # SystemExit and KeyboardInterrupt too: it is the student's code
        return None, describe(problem)


def main(folder, request, reply, *packages):
    """Answers requests until there are no more."""
    sys.path += [folder, *packages]
    import jax
    import numpy

    import wire

    start = wire.receive(int(request))
    calls = private(folder)
    namespace, run = notebook()
    forbidden = {name: found(name) for name in start["forbidden"]}
    modules = [builtins, functools, inspect, os, os.path, types, importlib, numpy, jax, jax.numpy, jax.lax, jax.tree, calls, wire]
    kept = [(vars(module), dict(vars(module))) for module in modules]
    fence(start["closed"])

    def put_back():
        for names, before in kept:
            names.update(before)

    def call(function, call, inputs, allowed, forbid):
        if function not in namespace:
            raise calls.Wrong(f"there is no function {function}. Does its cell run without an error?")
        answer = calls.perform(getattr(calls, call), namespace[function], inputs, allowed, frozenset(forbidden[name] for name in forbid))
        wire.encode(answer)
        return answer

    asked, result, error = start, None, ""
    while True:
        wire.send(int(reply), {"token": asked["token"], "result": result, "error": error})
        try:
            asked = wire.receive(int(request), classes=found)
        except EOFError:
            return
        result, error = attempt(run, asked["source"]) if "source" in asked else attempt(call, *asked["call"])
        put_back()


if __name__ == "__main__":
    main(*sys.argv[1:])
