"""The headers of every page and file that a browser shows: decided here, for the console, the documents and reports."""

from leveret.protocols.http.response import Headers

POLICY = "default-src 'self'; img-src 'self' data:"
"""What the pages of this server may load: their own files."""
ALWAYS = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


def page_headers(policy: str = POLICY, *, framed: bool = False) -> Headers:
    """Headers for a page that may load what `policy` says; `framed`: inside of our own pages too."""
    ancestors = "'self'" if framed else "'none'"
    common = f"object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors {ancestors}"
    content = ("Content-Security-Policy", f"{policy}; {common}")
    if framed:
        # Without Cross-Origin-Opener-Policy: browsers refuse to open a page that is also in a sandbox.
        return (content, ("X-Frame-Options", "SAMEORIGIN"), *ALWAYS)
    return (content, ("X-Frame-Options", "DENY"), *ALWAYS, ("Cross-Origin-Opener-Policy", "same-origin"))
