"""What nbgrader needs from us. Not in the wheel: this folder stays with whoever grades.

Making the student copy:
    stubs      puts in stubs that say what to write and the expected pictures, and writes the normal form.

Grading a submission:
    autograde  the preprocessors that nbgrader calls; trusts the gradebook, and nothing in the submitted file.
    parent     asks the child for answers and judges them; trusts no byte that comes from the child.
    wire       arrays as bytes and back; reading them runs no code.
    stage      the package `unrolled` as a submission sees it: what the lab allows, and no more.
    child      runs the submission. Everything in it is the student's to read and to change.

What is kept from the child is kept by not sending it: it gets one case at a time, and no judge, no right value, no
seed and no later case. The files of this repository are on the same disk; `child` refuses to open them, which stops
ordinary Python. It does not stop someone who breaks out of Python: for that, run the child in a sandbox. `parent.start`
is the one place where it is started.
"""
