"""Bar and line charts as plain SVG: titled, with units on both axes, a legend, a light grid. Pure: numbers
in, text out.
"""
import math
from xml.sax.saxutils import escape

COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2", "#9c6b4e", "#9498a0")
TOP, RIGHT, BOTTOM, LEFT = 62, 24, 52, 66
LEGEND_Y = 44
UPRIGHT_LABEL = 60
FONT = 'font-family="sans-serif"'


def nice_step(span, count):
    """The least of 1, 2 or 5 times a power of ten that cuts span in at most count pieces."""
    power = 10.0 ** math.floor(math.log10(span / count))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power * count >= span * (1 - 1e-9))


class Axis:
    """Values to pixels, linear from 0 or logarithmic over whole powers of ten."""

    def __init__(self, values, start, end, log=False):
        self.log, self.start, self.end = log, start, end
        if log:
            self.low = math.floor(math.log10(min(values)) + 1e-9)
            self.high = max(self.low + 1, math.ceil(math.log10(max(values)) - 1e-9))
            self.ticks = [10.0 ** power for power in range(self.low, self.high + 1)]
        else:
            step = nice_step(max(values) * 1.04, 6)
            self.low, self.high = 0.0, step * math.ceil(max(values) * 1.04 / step)
            self.ticks = [step * i for i in range(round(self.high / step) + 1)]

    def at(self, value):
        value = math.log10(value) if self.log else value
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def plain(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


class Sheet:
    """The frame that both kinds of chart share."""

    def __init__(self, width, height, title, x_title, y_title):
        self.width, self.height = width, height
        self.lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}">',
                      f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
        self.text(LEFT, 24, title, anchor="start", size=15, weight="bold")
        self.text((LEFT + width - RIGHT) / 2, height - 10, x_title)
        middle = (TOP + height - BOTTOM) / 2
        self.text(16, middle, y_title, rotate=True)

    def text(self, x, y, text, anchor="middle", size=12, weight="normal", rotate=False):
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if rotate else ""
        self.lines.append(f'<text x="{x:.1f}" y="{y:.1f}" {FONT} font-size="{size}" font-weight="{weight}" '
                          f'text-anchor="{anchor}" fill="#222222"{turn}>{escape(text)}</text>')

    def rule(self, x1, y1, x2, y2, colour="#dddddd"):
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self.lines.append(f'<line {ends} stroke="{colour}"/>')

    def y_axis(self, axis):
        for tick in axis.ticks:
            y = axis.at(tick)
            self.rule(LEFT, y, self.width - RIGHT, y)
            self.text(LEFT - 6, y + 4, plain(tick), anchor="end", size=11)

    def legend(self, names, mark=None):
        """Coloured squares for the names; a dash for the mark."""
        x = LEFT
        for i, name in enumerate(names):
            square = f'x="{x}" y="{LEGEND_Y - 9}" width="10" height="10"'
            self.lines.append(f'<rect {square} fill="{COLOURS[i]}"/>')
            self.text(x + 14, LEGEND_Y, name, anchor="start", size=11)
            x += 30 + round(6.2 * len(name))
        if mark:
            self.dash(x, x + 12, LEGEND_Y - 4)
            self.text(x + 16, LEGEND_Y, mark, anchor="start", size=11)

    def dash(self, x1, x2, y):
        self.lines.append(f'<line x1="{x1:.1f}" y1="{y:.1f}" x2="{x2:.1f}" y2="{y:.1f}" stroke="#222222" '
                          f'stroke-width="2"/>')

    def finish(self, foot):
        self.rule(LEFT, foot, self.width - RIGHT, foot, "#222222")
        return "\n".join([*self.lines, "</svg>"]) + "\n"


def bars(title, x_title, y_title, categories, series, mark=None, upright_labels=False):
    """Groups of bars: series is {name: [a value per category]}; mark is (name, [a value per category]), a
    dash over the group."""
    label_height = UPRIGHT_LABEL if upright_labels else 0
    width = max(720, LEFT + RIGHT + (8 * len(series) + 6) * len(categories))
    height = 360 + label_height
    foot = height - BOTTOM - label_height
    sheet = Sheet(width, height, title, x_title, y_title)
    axis = Axis([value for row in [*series.values(), mark[1] if mark else []] for value in row], foot, TOP)
    sheet.y_axis(axis)
    sheet.legend(series, mark and mark[0])
    group = (width - LEFT - RIGHT) / len(categories)
    gap = group / (2 * len(series) + 2)
    bar = (group - 2 * gap) / len(series)
    for i, category in enumerate(categories):
        left = LEFT + i * group
        for j, row in enumerate(series.values()):
            y = axis.at(row[i])
            sheet.lines.append(f'<rect x="{left + gap + j * bar:.1f}" y="{y:.1f}" width="{bar:.1f}" '
                               f'height="{foot - y:.1f}" fill="{COLOURS[j]}"/>')
        if mark:
            sheet.dash(left + gap / 2, left + group - gap / 2, axis.at(mark[1][i]))
        if upright_labels:
            sheet.text(left + group / 2 + 4, foot + 6, str(category), anchor="end", size=10, rotate=True)
        else:
            sheet.text(left + group / 2, foot + 16, str(category), size=11)
    return sheet.finish(foot)


def lines(title, x_title, y_title, series, x_names, log_y=False):
    """Lines over a logarithmic x: series is {name: [(x, y)]}. x_names is {x: label} of the values to be
    labelled."""
    width, height = 720, 400
    sheet = Sheet(width, height, title, x_title, y_title)
    points = [point for row in series.values() for point in row]
    y_axis = Axis([y for _, y in points], height - BOTTOM, TOP, log_y)
    x_axis = Axis([x for x, _ in points], LEFT, width - RIGHT, log=True)
    x_axis.low, x_axis.high = (math.log10(end(x for x, _ in points)) for end in (min, max))
    sheet.y_axis(y_axis)
    sheet.legend(series)
    for x, name in x_names.items():
        sheet.rule(x_axis.at(x), TOP, x_axis.at(x), height - BOTTOM)
        sheet.text(x_axis.at(x), height - BOTTOM + 16, name, size=11)
    for i, row in enumerate(series.values()):
        path = " ".join(f"{x_axis.at(x):.1f},{y_axis.at(y):.1f}" for x, y in row)
        sheet.lines.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[i]}" stroke-width="2"/>')
        sheet.lines += [f'<circle cx="{x_axis.at(x):.1f}" cy="{y_axis.at(y):.1f}" r="2.5" '
                        f'fill="{COLOURS[i]}"/>'
                        for x, y in row]
    return sheet.finish(height - BOTTOM)
