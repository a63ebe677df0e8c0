"""Names of the kinds of events: see leveret/storage/journal/columns.pyx. The numbers mean nothing here."""

NAMES = "moved published delivered settled returned purged spared defined started lost refused appended read counted"
KINDS = dict(enumerate(NAMES.split()))
