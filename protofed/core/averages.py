"""What the server averages: declared by a method, so that defences, noise and secure sums are written once.

A leg names the fields of its upload of which `aggregate` uses an average (or a sum) over the clients and
nothing else. Whoever stands between the clients and the method (`Guard`, guard.py) can then put another
average, robust, noisy or added up under masks, in place of every client's values: an average of equal values
is that value, whatever their weights, so the method goes on with it and need not know.
"""

from __future__ import annotations

from dataclasses import dataclass

SAMPLES = "samples"


@dataclass(frozen=True)
class Averaged:
    """One field of an upload of which the server uses the average alone.

    Rows of a class (`by` names their field of classes) are averaged class by class, over the clients that
    sent the class; trees and other tensors as wholes.
    """

    field: str
    by: str = ""
    weight: str = ""  # a field of counts, "samples" (of the client), or "": all weigh alike
    added: bool = False  # the server adds instead of averaging
    embedded: bool = (
        False  # rows are means of the net's embeddings of their samples; no more is told of these
    )
    square: bool = False  # of what is added: upper triangles of Σ φφᵀ, where other fields hold Σ φ
    once: str = ""  # of what is added: field of the state with the clients added before, each once
