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
import signal
import subprocess
import sys
import types

# What is refused altogether: other programs, signals to other processes, the network, links, and native code.
PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.killpg", "pty.spawn",
            "ctypes.dlopen", "socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg", "os.link", "os.symlink"}  # fmt: skip
READS = {"open", "os.listdir", "os.scandir", "sqlite3.connect"}
CHANGES = {"os.chmod", "os.chown", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.utime"}  # allowed in the scratch folder


def fence(closed, scratch):
    """Refuses, from now on, to open what is in the closed places, to change what is not in the scratch folder, and to reach other processes.

    What the hook rests on is bound to it in a tuple: there is no name and no cell that the student's code could change.
    """
    kept = (type, os.path.realpath, os.path.isabs, os.fsdecode, frozenset(PROGRAMS), frozenset(READS), frozenset(CHANGES), tuple(closed),
            os.path.realpath(scratch), os.getpid(), PermissionError)  # fmt: skip
    hook = types.MethodType(watch, kept)
    sys.addaudithook(hook)
    _posixsubprocess.fork_exec = subprocess._fork_exec = refuse_fork  # has no event of its own


def refuse_fork(*arguments):
    raise PermissionError("no other program is started where labs are graded")


def watch(kept, event, arguments):
    """The audit hook. Uses nothing but its arguments and literals."""
    kind, realpath, isabs, decode, programs, reads, changes, closed, scratch, own, refusal = kept
    if event in programs or event == "os.kill" and arguments[0] != own:
        raise refusal("nothing outside this process is reached where labs are graded")
    if event == "object.__setattr__" and arguments[1] == "__code__":
        raise refusal("the code of a function is not exchanged where labs are graded")
    if event not in reads and event not in changes:
        return
    writes = event in changes or event == "open" and arguments[2] & 0o3103  # to write, to create, to shorten, to append
    for given in arguments[: 2 if event == "os.rename" else 1]:
        if given is None or kind(given) is kind(0) and event in reads:
            continue
        if kind(given) is not kind("") and kind(given) is not kind(b""):
            raise refusal("only a text names a file where labs are graded")
        given = decode(given)
        real = realpath(given)
        inside = real == scratch or real.startswith(scratch + "/")
        beside = event == "open" and arguments[1] is None and not isabs(given)  # os.open, perhaps beside another folder
        beside = beside or event in changes and event != "os.truncate" and arguments[-1] != -1
        if writes and not inside and real != "/dev/null":
            raise refusal("nothing is changed outside of the scratch folder where labs are graded")
        if beside or real.endswith(".pth"):
            raise refusal("this file is not for reading where labs are graded")
        for place in closed:
            if not inside and (real == place or real.startswith(place + "/")):
                raise refusal("this file is not for reading where labs are graded")


def disarm():
    """Takes away what reaches other processes or files without an event."""
    for module in (os, signal, sys.modules["posix"], sys.modules["_signal"]):
        for name in ("pidfd_open", "pidfd_send_signal"):
            vars(module).pop(name, None)
    sys.modules["readline"] = None


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
    import IPython
    from IPython.core.inputtransformer2 import TransformerManager

    main = sys.modules["__main__"] = types.ModuleType("__main__")
    transform = TransformerManager().transform_cell

    def run(source):
        exec(compile(transform(source), "<cell>", "exec"), vars(main))

    main.get_ipython = IPython.get_ipython = lambda: Shell(run)
    main.display = main.help = lambda *arguments, **settings: None
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
    disarm()
    calls = private(folder)
    namespace, run = notebook()
    forbidden = {name: found(name) for name in start["forbidden"]}
    modules = [builtins, functools, inspect, os, os.path, types, importlib, numpy, jax, jax.numpy, jax.lax, jax.tree, calls, wire]
    kept = [(vars(module), dict(vars(module))) for module in modules]
    fence(start["closed"], os.getcwd())

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
