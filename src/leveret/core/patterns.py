r"""Patterns that clients and operators write, matched in linear time by RE2.

    search      a pattern is found anywhere in a name unless it has ^ and $, as in RabbitMQ
    syntax      that of RabbitMQ (PCRE): (?i), \d, [[:alpha:]], \Q..\E; \d, \w, \s and \b mean ASCII characters
    $           the end of the name, never the place before a last line feed
    bytes       a routing key that is not UTF-8 is matched byte by byte

RE2 has no lookaround, backreferences, possessive repetitions or atomic groups, which need a time that grows
exponentially with the name. Three forms that files of definitions are full of are evaluated as two patterns:

    ^text(?!A)B     found(^textB) and not found(^textA)      also several lookaheads in a row
    ^text(?=A)B     found(^textB) and found(^textA)
    ^((?!A).)*$     not found(A), and no line feed

Names with wildcards need no RE2: * is any text, ? any character. A glob has [abc] and [!abc] beside these.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any

from leveret.core.errors import InvalidArgument

# A name of 255 characters takes a program of this size 1 to 5 ms at worst, and typical ones a microsecond.
PROGRAM_MAX = 2_500
MEMORY_BYTES_MAX = 256 * 1024  # of one compiled pattern with the states that it has met, which RE2 forgets when full
COMPILED_MAX = 1_024  # patterns that stay compiled: typical ones take 1 to 5 KB
ERROR_CHARS_MAX = 200  # of a pattern that an error quotes

_FLAGS = re.compile(r"\(\?[isU]+\)")
_LITERAL = re.compile(r"(?:[^\\\[\](){}|.*+?^$]|\\[^\w\s])*")
_SIMPLE = re.compile(rf"\^({_LITERAL.pattern})(\$|(?:\.\*)?)")
_ESCAPED = re.compile(r"\\(.)")
_LOOK = ("(?!", "(?=")
_NOWHERE = re.compile(r"\^\((?:\?:)?(?=\(\?!)")
_ANCHOR = re.compile(r"\\[bBAzZGQ]|(?<!\\)[$^]")
_GLOB_PART = re.compile(r"\*+|\?|\[!?+(?:\][^\]]*|[^\]]+)\]|[^*?\[]+|\[")

_POSSESSIVE = "a possessive repetition; leave its second sign out"
_REFERENCE = "a reference to a group; write the alternatives out"
# What RE2 says about a construct that it does not have, by the begin of what it names.
_SAID = ("invalid perl operator", "invalid escape sequence", "bad repetition operator")
_ADVICE: dict[str, str] = {
    "(?!": r"a negative lookahead, which can stand after the start only, as in ^(?!amq\.).* or ^((?!word).)*$",
    "(?=": "a lookahead, which can stand after the start only, as in ^(?=.*word).*",
    "(?<": "a lookbehind; write what comes before into the pattern",
    "(?>": "an atomic group; write (?:...), which takes no longer here",
    "(?#": "a comment; leave it out",
    "(?x": "the flag x; leave it and the spaces out",
    "(?P": _REFERENCE,
    "(?R": "a recursion; write the levels out",
    "(?(": "a condition; write the alternatives out",
    "++": _POSSESSIVE,
    "*+": _POSSESSIVE,
    "?+": _POSSESSIVE,
    "\\k": _REFERENCE,
    **{f"\\{digit}": _REFERENCE for digit in range(1, 10)},
    "\\Z": r"\Z; write $",
    "\\h": r"\h; write [ \t]",
    "\\u": r"\u; write the character, or \x{20AC}",
}
_TOO_LARGE = f"it takes more than {PROGRAM_MAX} steps; write fewer repetitions and smaller classes"


@cache
def _engine() -> Any:
    """RE2, imported for the first pattern: clients, and brokers inside of programs, seldom have one."""
    try:
        import re2
    except ModuleNotFoundError:
        raise InvalidArgument("patterns need a library: pip install 'leveret[server]'") from None
    return re2


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_absent", "_key", "_present", "_simple", "steps")

    def __init__(self, text: str, ignore_case: bool = False, utf8: bool = True) -> None:
        """Compile it; raises InvalidArgument for what RE2 cannot do."""
        self._key = text, ignore_case
        self._simple = None if ignore_case else _simple(text)
        self.steps = 0
        """The size of its program: the time for a name is at most proportional to it."""
        present, absent = _split(text)
        self._present = [self._compiled(each, utf8) for each in present]
        self._absent = [self._compiled(each, utf8) for each in absent]

    def matches(self, name: str) -> bool:
        if self._simple is not None:
            return self._simple(name)
        try:
            return self._found(name.encode())
        except UnicodeEncodeError:
            # Bytes that are not UTF-8: no `.` of a pattern for UTF-8 would match them.
            return pattern(*self._key, False)._found(name.encode("utf-8", "surrogateescape"))

    def _found(self, data: bytes) -> bool:
        for each in self._present:
            if each.search(data) is None:
                return False
        return not any(each.search(data) is not None for each in self._absent)

    def _compiled(self, text: str, utf8: bool) -> Any:
        whole, ignore_case = self._key
        re2 = _engine()
        options = re2.Options()
        options.max_mem = MEMORY_BYTES_MAX
        options.log_errors = False
        options.never_capture = True
        options.case_sensitive = not ignore_case
        if not utf8:
            options.encoding = re2.Options.Encoding.LATIN1
        try:
            made = re2.compile(text.encode(), options)
        except UnicodeEncodeError:
            raise InvalidArgument("the pattern is not valid Unicode: correct it") from None
        except re2.error as error:
            said = error.args[0]
            raise _refusal(whole, _explained(said.decode("utf-8", "replace"))) from None
        self.steps += made.programsize
        if self.steps > PROGRAM_MAX:
            raise _refusal(whole, _TOO_LARGE)
        return made


def _simple(text: str) -> Callable[[str], bool] | None:
    """What a pattern amounts to that needs no engine: most permissions are .*, ^prefix or ^name$."""
    if text == ".*":
        return lambda name: True
    found = _SIMPLE.fullmatch(text)
    if found is None:
        return None
    literal = _ESCAPED.sub(r"\1", found[1])
    return literal.__eq__ if found[2] == "$" else lambda name: name.startswith(literal)


def _explained(said: str) -> str:
    """What RE2 says about a pattern, and what to write instead."""
    kind, _, named = said.partition(": ")
    if kind in _SAID:
        return next((f"it has {advice}" for sign, advice in _ADVICE.items() if named.startswith(sign)), said)
    if kind == "invalid repetition size":
        return "it repeats more than 1,000 times in all; write smaller numbers"
    return _TOO_LARGE if "too large" in kind else said


def _refusal(text: str, why: str) -> InvalidArgument:
    shown = text if len(text) <= ERROR_CHARS_MAX else text[:ERROR_CHARS_MAX] + "..."
    return InvalidArgument(f"the pattern '{shown}' is not a regular expression that can be used: {why}")


@lru_cache(maxsize=COMPILED_MAX)
def pattern(text: str, ignore_case: bool = False, utf8: bool = True) -> Pattern:
    """The pattern of that text, as it was compiled before if it was; raises InvalidArgument."""
    return Pattern(text, ignore_case, utf8)


def checked(what: str, text: object, chars_max: int) -> str:
    """The text of a pattern that can be used; `what` names it in errors."""
    given = check_length(what, text, chars_max)
    pattern(given)
    return given


def check_length(what: str, text: object, chars_max: int) -> str:
    """The text of a pattern that is not too long."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{what} is a regular expression, as a string")
    if len(text) > chars_max:
        raise InvalidArgument(f"{what} has {len(text)} characters, the limit is {chars_max}: shorten it")
    return text


def problem_of(text: object) -> str | None:
    """Why a stored pattern cannot be used, if so: older versions took what RE2 does not."""
    if not isinstance(text, str):
        return "the pattern is not a string"
    try:
        pattern(text)
    except InvalidArgument as error:
        return str(error)
    return None


def escape(text: str) -> str:
    """A pattern that is found where the text is."""
    escaped: str = _engine().escape(text)
    return escaped


# Names with wildcards


def wildcard_matches(text: str, name: str) -> bool:
    """Whether a name as a whole is like a text in which * stands for anything."""
    return parts_match(text.split("*"), name)


def parts_match(parts: list[str], name: str) -> bool:
    """The same for what stands between the stars."""
    head, *rest = parts
    if not rest:
        return name == head
    *middle, tail = rest
    at, end = len(head), len(name) - len(tail)
    if at > end or not name.startswith(head) or not name.endswith(tail):
        return False
    for part in middle:
        # The first place is the best one: what follows has the most room then.
        at = name.find(part, at, end) + len(part)
        if at < len(part):
            return False
    return True


def like(text: str, name: str) -> bool:
    """The same for a text in which ? stands for one character, as well; its time grows with both lengths at most."""
    if "?" not in text:
        return wildcard_matches(text, name)
    if len(text) - text.count("*") > len(name):
        return False
    at = place = tried = 0
    star = -1
    while place < len(name):
        sign = text[at] if at < len(text) else ""
        if sign == "*":
            star, tried = at, place
            at += 1
        elif sign in ("?", name[place]):
            at += 1
            place += 1
        elif star >= 0:
            at = star + 1
            tried += 1
            place = tried
        else:
            return False
    return not text[at:].strip("*")


def glob_matches(text: str, name: str) -> bool:
    """The same for a glob; one that cannot be used is like no name."""
    if "[" not in text:
        return like(text, name)
    try:
        return _glob(text).matches(name)
    except InvalidArgument:
        return False


def check_glob(text: str) -> None:
    """Refuse a glob that cannot be used."""
    if "[" in text:
        _glob(text)


def _glob(text: str) -> Pattern:
    return pattern(f"(?s)^{''.join(map(_glob_part, _GLOB_PART.findall(text)))}$")


def _glob_part(part: str) -> str:
    if part[0] == "*":
        return ".*"
    if part == "?":
        return "."
    if part[0] != "[" or part == "[":
        return escape(part)
    negated = part[1] == "!"
    inside = part[1 + negated : -1].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    return f"[{'^' * negated}{inside}]" if negated or inside[0] != "^" else f"[\\{inside}]"


# Lookaheads


def _split(text: str) -> tuple[list[str], list[str]]:
    """The patterns of RE2 that have to be found, and those that must not be."""
    flags = _FLAGS.match(text)
    start = "" if flags is None else flags[0]
    rest = text[len(start) :]
    if _NOWHERE.match(rest):
        return _split_nowhere(text, start, rest)
    literal = _LITERAL.match(rest, 1)
    if not rest.startswith("^") or literal is None or not rest.startswith(_LOOK, literal.end()):
        return [text], []
    head, at = start + rest[: literal.end()], literal.end()
    present: list[str] = []
    absent: list[str] = []
    while rest.startswith(_LOOK, at):
        end = _group_end(rest, at)
        if end is None:
            return [text], []
        (absent if rest[at + 2] == "!" else present).append(f"{head}(?:{rest[at + 3 : end]})")
        at = end + 1
    if any(sign == "|" and depth == 0 for _, sign, depth in _structure(rest[at:])):
        raise _refusal(text, "it has alternatives after a lookahead; put them into a group, as in ^(?!a)(b|c)")
    return [f"{head}{rest[at:]}", *present], absent


def _split_nowhere(text: str, flags: str, rest: str) -> tuple[list[str], list[str]]:
    """`^((?!A).)*$`: A is nowhere. Anchors in A would be tried at the end, too, and mean something else."""
    look = rest.index("(?!")
    end = _group_end(rest, look)
    if end is None or rest[end + 1 :] not in (".)*$", ".)+$") or _ANCHOR.search(rest[look + 3 : end]):
        return [text], []
    absent = f"{flags}{rest[look + 3 : end]}"
    if pattern(absent).matches(""):
        return [text], []
    return [f"^.{rest[end + 3]}$"], [absent]


def _group_end(text: str, start: int) -> int | None:
    """Where the group that begins at a place ends."""
    return next((start + at for at, sign, depth in _structure(text[start:]) if sign == ")" and depth == 0), None)


def _structure(text: str) -> Iterator[tuple[int, str, int]]:
    """The parentheses and bars of a pattern that are neither escaped nor in a class, each with its depth."""
    at = depth = 0
    while at < len(text):
        sign = text[at]
        if text.startswith(r"\Q", at):
            end = text.find(r"\E", at)
            at = len(text) if end < 0 else end + 1
        elif sign == "\\":
            at += 1
        elif sign == "[":
            at = _class_end(text, at)
        elif sign == "(":
            yield at, sign, depth
            depth += 1
        elif sign == ")":
            depth -= 1
            yield at, sign, depth
        elif sign == "|":
            yield at, sign, depth
        at += 1


def _class_end(text: str, start: int) -> int:
    """Where a class of characters ends; a bracket at its begin, escaped or of [:alpha:] does not end it."""
    at = start + 1 + text.startswith("^", start + 1)
    at += text.startswith("]", at)
    while at < len(text) and text[at] != "]":
        if text[at] == "\\":
            at += 1
        elif text.startswith("[:", at):
            end = text.find(":]", at)
            at = at if end < 0 else end + 1
        at += 1
    return at
