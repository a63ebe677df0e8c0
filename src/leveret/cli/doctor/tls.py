"""What to do about the revocation lists that the options of a server name."""

from collections.abc import Iterator

from leveret.cli.units import in_time
from leveret.config import ServerOptions
from leveret.security.der import BadCertificate
from leveret.security.revocation import read_lists


def advice_on_lists(options: ServerOptions, now_ms: int) -> Iterator[str]:
    """Lists that cannot be used, have expired, or will soon."""
    for path in filter(None, (options.tls_crl, options.cluster_tls_crl)):
        try:
            lists = read_lists(path)
        except BadCertificate as error:
            yield str(error)
            continue
        if lists.next_update_ms is None or not lists.is_due(now_ms):
            continue
        left_s = (lists.next_update_ms - now_ms) / 1_000
        when = f"expires in {in_time(left_s)}" if left_s > 0 else "has expired"
        yield f"a revocation list in {path} {when}: put a new one there, without it every certificate is refused"
