"""Submissions that try to get marks for an answer that they do not have.

Each answers an exercise, the leaky step of lab 1. It gives the right answer only if its trick works, and else the cell of
chapter 1, a wrong answer that the check knows by name. So where the check names that mistake, the whole attack has run, and
nothing was gained by it. `works` says against which graders of the usual kind it does gain something:

    assertion   an assert in the same process, next to the expected value
    notebook    the check as it stands in the notebook, which the student's own code can change

    python tests/attacks.py assertion name …      prints the names of the attacks that get past that grader
"""

import os
import sys
from typing import NamedTuple

CLOSED = "PermissionError: this file is not for reading where labs are graded"
PROGRAM = "PermissionError: nothing outside this process is reached where labs are graded"
FORK = "PermissionError: no other program is started where labs are graded"
NAMED = "PermissionError: only a text names a file where labs are graded"
CHANGED = "PermissionError: nothing is changed outside of the scratch folder where labs are graded"
NOT_ALLOWED = "this lab does not allow unrolled.{}: write it yourself"

START = '''
import builtins, gc, glob, importlib, importlib.util, os, sys
import jax
import jax.numpy as jnp
import numpy as np

def wrong(params, alpha, h, x):
    return jnp.tanh(params.W @ h + params.U @ x + params.b)

def right(params, alpha, h, x):
    return (1 - alpha) * h + alpha * wrong(params, alpha, h, x)

def expected(found, h):
    """The first array in a dictionary that has the name and the shape of an expected value."""
    return next((found[name] for name in ("expected", "right_answer") if np.shape(found.get(name)) == h.shape), None)
'''


class Attack(NamedTuple):
    """Source that defines `answer`; the message that it must get, if not that of the wrong answer; the usual grader that it gets past, if any."""

    source: str
    message: str = ""
    works: str = ""


ATTACKS = {
    # ------------------------------------------------------------ looking for the expected value
    "stack frames": Attack('''
def answer(params, alpha, h, x):
    frame = sys._getframe()
    while frame := frame.f_back:
        for names in (frame.f_locals, frame.f_globals):
            if (found := expected(dict(names), h)) is not None:
                return found
    return wrong(params, alpha, h, x)
''', works="assertion"),
    "objects in memory": Attack('''
def answer(params, alpha, h, x):
    for names in gc.get_objects():
        if type(names) is dict and (found := expected(names, h)) is not None:
            return found
    return wrong(params, alpha, h, x)
''', works="assertion"),
    "the list of cases": Attack('''
def answer(params, alpha, h, x):
    frame = sys._getframe()
    while frame := frame.f_back:
        for found in [*frame.f_locals.values(), *frame.f_globals.values()]:
            for pair in found if type(found) is list else ():
                if type(pair) is tuple and len(pair) == 2 and type(pair[0]) is tuple and pair[0][2] is h:
                    return pair[1]
    return wrong(params, alpha, h, x)
''', works="assertion"),
    "earlier cases remembered": Attack('''
seen = {}
def answer(params, alpha, h, x):
    count = seen[h.tobytes()] = seen.get(h.tobytes(), 0) + 1
    return (right if count > 1 else wrong)(params, alpha, h, x)
'''),
    "a judge in memory": Attack('''
def answer(params, alpha, h, x):
    judges = [one for one in gc.get_objects() if type(one).__name__ == "Check" and one.name == "step"]
    return right(params, alpha, h, x) if judges else wrong(params, alpha, h, x)
''', works="notebook"),
    "the seed in the environment": Attack('''
def answer(*inputs):
    return (right if "UNROLLED_SEED" in os.environ else wrong)(*inputs)
''', works="assertion"),
    "the seed in the parent's environment": Attack('''
def answer(*inputs):
    with open(f"/proc/{os.getppid()}/environ", "rb") as file:
        return (right if b"UNROLLED_SEED" in file.read() else wrong)(*inputs)
''', message=CLOSED, works="assertion"),
    # ------------------------------------------------------------ changing what judges
    "numpy.testing": Attack('''
np.testing.assert_allclose = np.testing.assert_array_equal = lambda *arguments, **settings: None
np.allclose = np.isclose = np.array_equal = lambda *arguments, **settings: True
def answer(*inputs):
    return wrong(*inputs)
''', works="assertion"),
    "builtins": Attack('''
builtins.all = builtins.any = builtins.bool = builtins.isinstance = lambda *arguments: True
builtins.max = builtins.abs = lambda *arguments, **settings: 0.0
def answer(*inputs):
    return wrong(*inputs)
'''),
    "jax.tree.map": Attack('''
jax.tree.map = lambda function, tree, *rest: tree
jax.tree.leaves = lambda tree: []
jax.tree.structure = lambda tree: 0
def answer(*inputs):
    return wrong(*inputs)
''', works="notebook"),
    "NumPy's own functions": Attack('''
np.asarray = np.array = lambda value, *arguments: value
np.abs = np.absolute = lambda value: 0
def answer(*inputs):
    return wrong(*inputs)
'''),
    "unrolled.checks": Attack('''
import unrolled.checks, unrolled.checks.calls
for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").startswith("unrolled.checks"):
        for name in ("difference", "same", "_close"):
            setattr(module, name, lambda *arguments, **settings: "")
unrolled.checks.calls.perform = lambda *arguments: None
if hasattr(unrolled.checks, "Check"):
    unrolled.checks.Check.verdict = lambda *arguments: ""
def answer(*inputs):
    return wrong(*inputs)
''', works="notebook"),
    "the code of the caller": Attack('''
def answer(params, alpha, h, x):
    frame = sys._getframe().f_back
    while frame:
        for function in gc.get_referrers(frame.f_code):
            if callable(function) and function.__name__ in ("test", "verdict", "judge"):
                function.__code__ = (lambda *arguments: "").__code__
        frame = frame.f_back
    return wrong(params, alpha, h, x)
'''),
    # ------------------------------------------------------------ getting round the judge
    "an exception that says so": Attack('''
def answer(*inputs):
    raise AssertionError("step: visible and hidden checks passed.")
''', message="AssertionError: step: visible and hidden checks passed."),
    "an exception without words": Attack('''
class Wrong(Exception):
    pass
def answer(*inputs):
    raise Wrong("")
''', message="the result is not made of arrays."),
    "exceptions swallowed": Attack('''
sys.excepthook = lambda *arguments: None
def answer(*inputs):
    try:
        raise SystemExit(0)
    finally:
        return wrong(*inputs)
'''),
    "sys.exit": Attack('''
def answer(*inputs):
    print("step: visible and hidden checks passed.")
    sys.exit(0)
''', message="SystemExit: 0", works="assertion"),
    "an object that is equal to all": Attack('''
class Answer:
    shape = (1,)
    def __eq__(self, other): return True
    def __array__(self, *arguments, **settings): return np.asarray(expected({}, np.zeros(0)))
    def __array_function__(self, *arguments): return True
    def __array_ufunc__(self, *arguments, **settings): return np.zeros(())
    def __bool__(self): return True
def answer(*inputs):
    return Answer()
''', message="the result is of type Answer. Expected an array.", works="assertion"),
    "an array that is equal to all": Attack('''
class Array(np.ndarray):
    def __array_function__(self, *arguments): return True
    def __array_ufunc__(self, *arguments, **settings): return np.zeros(())
def answer(*inputs):
    return np.array(wrong(*inputs)).view(Array)
''', works="assertion"),
    "an array of objects": Attack('''
def answer(*inputs):
    return np.array([lambda: 0] * len(inputs[2]), dtype=object)
''', message="the result is an array of dtype object. Expected real numbers."),
    "too much to send": Attack('''
def answer(*inputs):
    return np.broadcast_to(np.zeros(1), (2**40,))
''', message=f"ValueError: the result is an array of shape ({2**40},), with {2**43} bytes. Expected at most {2**26}."),
    "right as long as it is watched": Attack('''
calls = []
def answer(*inputs):
    calls.append(inputs)
    return (right if len(calls) <= 5 else wrong)(*inputs)
''', works="assertion"),
    # ------------------------------------------------------------ taking the answer from elsewhere
    "imported": Attack('''
def answer(params, alpha, h, x):
    from unrolled.vanilla_rnn import step
    return (1 - alpha) * h + alpha * step(params, h, x)
''', message="ImportError: " + NOT_ALLOWED.format("vanilla_rnn.step"), works="assertion"),
    "imported by importlib": Attack('''
def answer(params, alpha, h, x):
    return (1 - alpha) * h + alpha * getattr(importlib.import_module("unrolled.vanilla_rnn"), "unroll")(params, h, x[None])[0]
''', message="ImportError: " + NOT_ALLOWED.format("vanilla_rnn.unroll"), works="assertion"),
    "the slow loop of the check": Attack('''
def answer(params, alpha, h, x):
    from unrolled.checks.vanilla_rnn import forward
    return forward(params, alpha, h, x[None])[0]
''', message="ImportError: " + NOT_ALLOWED.format("checks.vanilla_rnn.forward"), works="assertion"),
    "the judge of the check": Attack('''
def answer(*inputs):
    from unrolled.checks import vanilla_rnn as check
    return next(one(*inputs) for one in (wrong, right) if check.step.judge(inputs, one(*inputs)) == "")
''', message="AttributeError: 'function' object has no attribute 'judge'", works="assertion"),
    "another module of the package": Attack('''
def answer(*inputs):
    from unrolled.checks import compare
    return right(*inputs)
''', message="ImportError: " + NOT_ALLOWED.format("checks.compare"), works="assertion"),
    "the path of the package": Attack('''
def answer(params, alpha, h, x):
    for name in [name for name in sys.modules if name.split(".")[0] == "unrolled"]:
        del sys.modules[name]
    sys.path.insert(0, LABS)
    try:
        from unrolled.vanilla_rnn import step
    finally:
        sys.path.remove(LABS)
    return (1 - alpha) * h + alpha * step.__wrapped__(params, h, x)
''', message="ImportError: " + NOT_ALLOWED.format("vanilla_rnn.step"), works="assertion"),
    "the file of the package": Attack('''
def answer(params, alpha, h, x):
    spec = importlib.util.spec_from_file_location("theirs", LABS + "/unrolled/checks/vanilla_rnn.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.forward(params, alpha, h, x[None])[0]
''', message=CLOSED, works="assertion"),
    "the text of the file": Attack('''
def answer(*inputs):
    with open(os.path.join(LABS, "unrolled", "..", "unrolled", "vanilla_rnn.py")) as file:
        return (right if "tanh" in file.read() else wrong)(*inputs)
''', message=CLOSED, works="assertion"),
    "a link to the file": Attack('''
def answer(*inputs):
    link = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"unrolled-link-{os.getpid()}")
    os.symlink(LABS, link)
    try:
        return (right if open(link + "/unrolled/vanilla_rnn.py").read() else wrong)(*inputs)
    finally:
        os.remove(link)
''', message=PROGRAM, works="assertion"),
    "the file beside its folder": Attack('''
def answer(*inputs):
    folder = os.open(os.path.dirname(LABS), os.O_RDONLY)
    file = os.open("labs/unrolled/vanilla_rnn.py", os.O_RDONLY, dir_fd=folder)
    return (right if os.read(file, 100) else wrong)(*inputs)
''', message=CLOSED, works="assertion"),
    "how the package is installed": Attack('''
def answer(*inputs):
    found = [file for place in sys.path for file in glob.glob(place + "/*unrolled*")]
    for file in found:
        if os.path.isdir(file) and "child" not in file:
            found += glob.glob(file + "/*")
    texts = [open(file, "rb").read() for file in found if os.path.isfile(file)]
    return (right if texts else wrong)(*inputs)
''', message=CLOSED, works="assertion"),
    "what the child has on its disk": Attack('''
def answer(*inputs):
    places = [place for place in sys.path if place.endswith("/staged")]
    texts = [open(file).read() for place in places for file in glob.glob(place + "/**/*.py", recursive=True)]
    known = [text for text in texts if "np.tanh" in text or "jnp.tanh(params" in text or "### BEGIN" in text or "def judge" in text]
    return (right if known or not places else wrong)(*inputs)
''', works="assertion"),
    "another program": Attack('''
def answer(*inputs):
    import subprocess
    answer = subprocess.run([sys.executable, "-c", "print('tanh')"], capture_output=True, text=True).stdout
    return (right if "tanh" in answer else wrong)(*inputs)
''', message=PROGRAM, works="assertion"),
    "another program, by its own means": Attack('''
def answer(*inputs):
    import multiprocessing
    process = multiprocessing.get_context("spawn").Process(target=os.getpid)
    process.start()
    process.kill()
    return right(*inputs)
''', message=FORK),
    "the fence taken away": Attack('''
for hook in gc.get_objects():
    if callable(hook) and getattr(hook, "__name__", "") == "watch" and hasattr(hook, "__code__"):
        names, open_gate = ", ".join(f"v{place}" for place in range(len(hook.__code__.co_freevars))), {}
        exec(f"def outer({names}):\\n    def inner(event, arguments):\\n        return None, [{names}]\\n    return inner", open_gate)
        try:
            hook.__code__ = next(part for part in open_gate["outer"].__code__.co_consts if hasattr(part, "co_code"))
        except (PermissionError, AttributeError):
            pass
def answer(*inputs):
    kept = builtins.any, builtins.isinstance, os.path.realpath
    builtins.any = builtins.isinstance = lambda *arguments: False
    os.path.realpath = os.path.isabs = os.fsdecode = lambda path: "/"
    try:
        text = open(LABS + "/unrolled/vanilla_rnn.py").read()
    finally:
        builtins.any, builtins.isinstance, os.path.realpath = kept
    return (right if text else wrong)(*inputs)
''', message=CLOSED, works="assertion"),
    "the fence's own memory": Attack('''
def answer(*inputs):
    import _posixsubprocess
    for function in [_posixsubprocess.fork_exec, *gc.get_objects()]:
        if function is _posixsubprocess.fork_exec or getattr(function, "__name__", "") in ("watch", "fence", "refuse_fork"):
            for cell in getattr(function, "__closure__", None) or ():
                cell.cell_contents = ()
    return (right if open(LABS + "/unrolled/vanilla_rnn.py").read() else wrong)(*inputs)
''', message=CLOSED, works="assertion"),
    "a path that lies": Attack('''
class Path(str):
    startswith = lambda *arguments: False
def answer(*inputs):
    return (right if open(Path(LABS + "/unrolled/vanilla_rnn.py")).read() else wrong)(*inputs)
''', message=NAMED, works="assertion"),
    "a path that changes": Attack('''
class Path:
    asked = 0
    def __fspath__(self):
        Path.asked += 1
        return "/dev/null" if Path.asked == 1 else LABS + "/unrolled/vanilla_rnn.py"
def answer(*inputs):
    import _io
    path = Path()
    _io.FileIO(path).read()
    return (right if _io.FileIO(path).read() else wrong)(*inputs)
''', message=NAMED, works="assertion"),
    "the folder under another name": Attack('''
def answer(*inputs):
    there, away = LABS + "/unrolled", LABS + "/unrolled-away"
    os.rename(there, away)
    try:
        return (right if open(away + "/vanilla_rnn.py").read() else wrong)(*inputs)
    finally:
        os.rename(away, there)
''', message=CHANGED),
    "the gradebook overwritten": Attack('''
def answer(*inputs):
    with open("gradebook.db", "w") as file:
        file.write("none")
    os.replace("gradebook.db", LABS + "/gradebook.db")
    return right(*inputs)
''', message=CHANGED),
    "the parent killed": Attack('''
def answer(*inputs):
    os.kill(os.getppid(), 15)
    return right(*inputs)
''', message=PROGRAM),
    "the parent killed in another way": Attack('''
def answer(*inputs):
    import signal
    signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 15)
    return right(*inputs)
''', message="AttributeError: module 'signal' has no attribute 'pidfd_send_signal'"),
    "the module of checks": Attack('''
import types
module = types.ModuleType("unrolled.checks.vanilla_rnn")
module.step = lambda function, hidden=False: print("step: hidden checks passed.")
check = sys.modules["unrolled.checks.vanilla_rnn"] = module
def answer(*inputs):
    return wrong(*inputs)
''', works="notebook"),
}

# Other exercises: what an answer may not use, or may not form on its way, with the looking made blind.
BLIND = {
    "bptt": ('''
import unrolled.checks.calls, inspect
unrolled.checks.calls.refuse = unrolled.checks.calls._used = lambda *arguments, **settings: []
inspect.unwrap = lambda function: print
def bptt(model, alpha, h0, x, target):
    def loss(model):
        total, h = 0.0, h0
        for x_t, target_t in zip(x, target):
            h = right(model.rnn, alpha, h, x_t)
            total += 0.5 * jnp.sum((model.V @ h + model.c - target_t) ** 2)
        return total
    return jax.grad(loss)(model)
''', "in your place"),
    "push": ('''
jax.make_jaxpr = lambda function: lambda *arguments: type("Program", (), {"jaxpr": type("Jaxpr", (), {"eqns": []})})
def push(params, alpha, h0, x, v):
    import unrolled.checks.calls
    unrolled.checks.calls._shapes = lambda program: []
    rows, h = [], h0
    for x_t in x:
        v = jax.jacobian(lambda h: right(params, alpha, h, x_t))(h) @ v
        h = right(params, alpha, h, x_t)
        rows.append(v)
    return jnp.stack(rows)
''', "formed on the way"),
}

# By these the child is lost, at the latest with the next request. What is said of the call during which they act:
ENDED = "the program ended, or wrote where it should not, before an answer came."
ENDLESS = "no answer came in {:.0f} seconds. Does a loop go on for ever?"
KILLERS = {
    "os._exit": ("os._exit(0)", ENDED),
    "a signal": ("os.kill(os.getpid(), 9)", ENDED),
    "a crash": ("import faulthandler; faulthandler._sigsegv()", ENDED),
    "an endless loop": ("while True: pass", ENDLESS),
    "garbage to every file descriptor": ("""
for number in range(3, 64):
    try:
        os.write(number, b"\\x00passed\\xff" * 99)
    except OSError:
        pass""", ENDED),
    "every file descriptor closed": ("os.closerange(3, 64)", ENDED),
    "a forged answer": ("""
import wire
for number in range(3, 64):
    try:
        wire.send(number, {"token": "0" * 16, "result": np.asarray(right(*inputs)), "error": ""}, 0.1)
    except OSError:
        pass""", ENDED),
    "an answer to the next request": ("""
import wire
frame = sys._getframe()
while "asked" not in frame.f_locals:
    frame = frame.f_back
for number in range(3, 64):
    try:
        wire.send(number, {"token": frame.f_locals["asked"]["token"], "result": np.asarray(wrong(*inputs)), "error": ""}, 0.1)
    except OSError:
        pass""", ""),
}


def killer(name, action):
    """Source that defines a function which does it, and then answers rightly."""
    lines = "\n".join(f"    {line}" for line in action.splitlines())
    return f"def {name}(*inputs):\n{lines}\n    return right(*inputs)"


USUAL = {
    "assertion": '''
def test(inputs, expected):
    given = answer(*inputs)
    assert np.allclose(given, expected, rtol=1e-4)

for inputs, right_answer in cases:
    secret = {"expected": right_answer}
    test(inputs, right_answer)
''',
    "notebook": '''
check.step(answer)
check.step(answer, hidden=True)
''',
}


def usual(kind, names):
    """The attacks that get past a usual grader, each tried in a process of its own."""
    import numpy as np

    from unrolled.checks import vanilla_rnn as check

    labs = os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["unrolled"].__file__)))
    cases = [(inputs, check.forward(inputs[0], inputs[1], inputs[2], inputs[3][None])[0]) for inputs in check.step.draw()]
    for name in names:
        process = os.fork()
        if not process:
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                names = {"LABS": labs, "cases": cases, "check": check, "np": np}
                exec(START + ATTACKS[name].source + USUAL[kind], names)
                os._exit(0)
            except SystemExit as end:
                os._exit(end.code or 0)
            except BaseException:
                os._exit(1)
        if os.waitpid(process, 0)[1] == 0:
            print(name, flush=True)


if __name__ == "__main__":
    usual(sys.argv[1], sys.argv[2:] or ATTACKS)
