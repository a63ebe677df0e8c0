"""A table as text: columns as wide as their longest cell, figures at the right."""

from collections.abc import Sequence


def text_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines with two blanks between columns; a column in which every cell begins with a digit is aligned right."""
    columns = list(zip(titles, *rows, strict=True))
    aligned = []
    for title, *cells in columns:
        width = max(map(len, (title, *cells)))
        side = ">" if cells and all(cell[:1].isdigit() for cell in cells) else "<"
        aligned.append([f"{cell:{side}{width}}" for cell in (title, *cells)])
    return "\n".join("  ".join(line).rstrip() for line in zip(*aligned, strict=True))
