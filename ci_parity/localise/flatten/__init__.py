"""A model made flat for one case: no function, branch or loop is left to hide the guilty node.

Nothing here runs a model. What a case decides is asked of the caller, level by level:

    flat = begin(model)
    while asked := questions(flat):
        values = outputs of probe(flat), run on the case's inputs, by the names of `asked`
        flat = answered(flat, values)

The flat model computes, on that case, what the original means: the branches that were taken, the
turns of loops that ran. Where a runtime's own branch or loop does not do what it means, the flat
model does not repeat the fault: that both give the same outputs is for the caller to see. What
cannot be taken apart stays as it is, and `Flattened.left` says why. Models are never changed in
place, and external data is never read.
"""

from ci_parity.localise.flatten.names import named
from ci_parity.localise.flatten.questions import Question, probe, questions
from ci_parity.localise.flatten.rounds import answered, begin
from ci_parity.localise.flatten.state import Flattened

__all__ = ["Flattened", "Question", "answered", "begin", "named", "probe", "questions"]
