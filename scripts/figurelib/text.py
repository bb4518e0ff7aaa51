"""Markdown: aligned tables, wrapped prose, and numbers and sizes as people read them. Pure."""
import re
import textwrap

WIDTH = 120


def table(headers, rows, left=1):
    """A Markdown table whose source is aligned too; the first `left` columns flush left, the others right."""
    cells = [list(map(str, row)) for row in [headers, *rows]]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headers))]
    pad = [str.ljust if i < left else str.rjust for i in range(len(headers))]
    rule = ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]

    def line(row):
        return "| " + " | ".join(row) + " |"

    body = [line([pad[i](cell, widths[i]) for i, cell in enumerate(row)]) for row in cells]
    return "\n".join([body[0], line(rule), *body[1:]]) + "\n"


def fill(text, bullet=""):
    return textwrap.fill(" ".join(text.split()), WIDTH, initial_indent=bullet,
                         subsequent_indent=" " * len(bullet),
                         break_long_words=False, break_on_hyphens=False)


def wrap(text):
    """The same Markdown with its paragraphs and list items filled again: numbers put in have any length.
    Blocks that start as headings, tables and pictures do are left alone."""
    blocks = []
    for block in re.split(r"\n{2,}", text.strip("\n")):
        if block.startswith("- "):
            blocks.append("\n".join(fill(item, "- ")
                                    for item in re.split(r"^- ", block, flags=re.MULTILINE)[1:]))
        elif block.startswith(("#", "|", "![")):
            blocks.append(block)
        else:
            blocks.append(fill(block))
    return "\n\n".join(blocks) + "\n"


def number(value, digits=2):
    return "–" if value is None else f"{value:.{digits}f}"


def size(count, base=1000):
    """Bytes in units of powers of 1000 or 1024, to three digits."""
    units = ("B", "kB", "MB", "GB") if base == 1000 else ("B", "KiB", "MiB", "GiB")
    power = 0
    while count >= base ** (power + 1) and power < 3:
        power += 1
    return f"{count / base ** power:.{3 if count < 1000 * base ** power else 4}g} {units[power]}"
