"""`leveret completion`: a script that lets a shell complete commands, actions and flags.

The script asks `leveret completion words` for each completion, so that it never differs from the parser.
"""

from argparse import SUPPRESS, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Sequence

from leveret.cli.parser import Command, argument

WORDS_MAX = 1_000
SHELLS = {
    "bash": """_leveret() {
    mapfile -t COMPREPLY < <(leveret completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _leveret leveret
""",
    "zsh": """#compdef leveret
_leveret() {
    local -a found
    found=("${(@f)$(leveret completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
compdef _leveret leveret
""",
    "fish": """complete -c leveret -a '(leveret completion words (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}


def run(given: Namespace) -> int:
    """Print the script, or what the last of some words may become."""
    if given.shell != "words":
        print(SHELLS[given.shell], end="")
        return 0
    # Not above: the parser is made of this command too.
    from leveret.cli.main import parser

    words = given.words[:WORDS_MAX]
    for word in candidates(parser(words), words):
        print(word)
    return 0


def candidates(parser: ArgumentParser, words: Sequence[str]) -> list[str]:
    """What the last word may become, given those before it."""
    *before, last = words or [""]
    for word in before:
        parser = _actions(parser).get(word, parser)
    known = [*_actions(parser), *_choices(parser)]
    if last.startswith("-"):
        known = [flag for flag in parser._option_string_actions if flag.startswith("--")]
    return sorted(word for word in known if word.startswith(last))


def _actions(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    """The words that a parser goes on with."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            return dict(action.choices)
    return {}


def _choices(parser: ArgumentParser) -> list[str]:
    """What an argument without a flag may be, where that is known."""
    rows = [action for action in parser._actions if not action.option_strings and action.choices]
    return [str(each) for row in rows if not isinstance(row, _SubParsersAction) for each in row.choices or ()]


COMMAND = Command(
    (
        argument("shell", choices=(*SHELLS, "words"), metavar="bash|zsh|fish", help="which shell"),
        argument("words", nargs="...", help=SUPPRESS),
    ),
    run,
    ("leveret completion bash", "leveret completion fish"),
)
