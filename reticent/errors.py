"""Every exception Reticent raises, drawn as a tree; each has the exit code that `reticent` ends with.

ReticentError                      1   something else; the sentence says what
├── StudyError                     3   a study file (or --set) says something impossible
├── PartyError                     4   a party file says something impossible
│   └── DataError                  4   a table, a column, an id or a label is not what was promised
├── LetterError                    5   bytes that are no letter of this run: torn, oversize, foreign, not finite
├── Refused                        6   a party's own policy said no
├── MissingReplies                 7   fewer guests answered than were needed
├── WireError                      8   no connection, or a certificate that does not fit the name
│   ├── GuestGone                  8   a guest's connection ended before it answered
│   └── Late                       8   a guest did not answer within the time asked for
├── JournalError                   9   a run cannot go on from what lies on disk
│   └── FormatError                9   files of another format number
└── PrivacyError                  10   a privacy target that cannot be met, or a release nobody accounted for

An error is a sentence with values and the next step. What crosses to another party is this sentence and the class's
name, never a stack trace: a trace may quote data.
"""

from collections.abc import Mapping


class ReticentError(Exception):
    exit_code = 1


class StudyError(ReticentError):
    exit_code = 3


class PartyError(ReticentError):
    exit_code = 4


class DataError(PartyError):
    pass


class LetterError(ReticentError):
    exit_code = 5


class Refused(ReticentError):
    exit_code = 6


class MissingReplies(ReticentError):
    """`missing` says who did not answer and why."""

    exit_code = 7

    def __init__(self, verb: str, answered: int, needed: int, missing: Mapping[str, Exception]) -> None:
        self.missing = dict(missing)
        why = "; ".join(f"{name}: {error}" for name, error in self.missing.items())
        super().__init__(f"{verb}: {answered} of {answered + len(self.missing)} guests answered, {needed} needed; {why}")


class WireError(ReticentError):
    exit_code = 8


class GuestGone(WireError):
    pass


class Late(WireError):
    pass


class JournalError(ReticentError):
    exit_code = 9


class FormatError(JournalError):
    pass


class PrivacyError(ReticentError):
    exit_code = 10
