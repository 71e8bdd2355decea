"""What is to be predicted, and the shape of labels and scores that follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from reticent.errors import StudyError

Kind = Literal["binary", "multiclass", "multilabel", "regression"]


@dataclass(frozen=True)
class Task:
    """Labels and raw scores, by kind: binary float32 0/1 [n] and logits [n]; multiclass int64 [n] and logits [n, outputs];
    multilabel float32 0/1 [n, outputs] and logits [n, outputs]; regression float32 [n] and scores [n], both in the label's units."""

    kind: Kind
    outputs: int = 1  # classes, or labels; 1 for binary and regression

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise StudyError(f"task {self.kind!r} is unknown: use one of {', '.join(get_args(Kind))}")
        if self.outputs < 1 or (self.kind in ("binary", "regression") and self.outputs != 1):
            raise StudyError(f"a {self.kind} task cannot have {self.outputs} outputs: binary and regression have 1, the others 1 or more")

    @property
    def flat(self) -> bool:
        """True where labels and scores are [n]-vectors of one number a row."""
        return self.kind in ("binary", "regression")

    def to_arrays(self) -> Mapping[str, object]:
        return {"kind": self.kind, "outputs": self.outputs}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        return cls(arrays["kind"], arrays["outputs"])
