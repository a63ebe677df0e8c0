"""How the process ends: a code for each reason, so that a supervisor knows whether to try again."""

from leveret.core import errors
from leveret.security.der import BadCertificate
from leveret.storage.journal.commit import EXIT_FAILED, EXIT_FENCED


class CannotListen(errors.LeveretError):
    """An address cannot be listened on."""


# Numbers as in sysexits.h, where there is one that fits.
EXIT_CODES: dict[type[errors.LeveretError], int] = {
    errors.LeveretError: 1,
    errors.InvalidArgument: 2,
    BadCertificate: 78,
    CannotListen: 69,
    errors.JournalError: 74,
    errors.JournalFailed: EXIT_FAILED,
    errors.Fenced: EXIT_FENCED,
    errors.DataLocked: 75,
    errors.DamagedJournal: 65,
    errors.UnknownFormat: 65,
    errors.WrongKey: 78,
}


def exit_code(error: errors.LeveretError) -> int:
    """The code for an error: its own, or that of its nearest base."""
    return next(EXIT_CODES[base] for base in type(error).__mro__ if base in EXIT_CODES)
