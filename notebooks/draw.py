"""The notebooks' pictures: one look for all, colours that the colour-blind tell apart, and the shapes that recur."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

# The palette of Okabe and Ito: eight colours that differ for every kind of sight, and in grey.
BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, YELLOW = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442",
)  # fmt: skip
PALETTE = (BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, YELLOW)
INK, GREY, PALE = "#222222", "#8A8A8A", "#E8E8E8"
# Where colours are not enough: no two of the first seven members look alike in black and white either.
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "+++", "ooo")
_DPI, _COLOURS = 110, 128


def figure(width: float = 9.0, height: float = 3.4, rows: int = 1, columns: int = 1, **more: Any) -> tuple[Figure, Any]:
    """A figure with its axes: one, or an array of them."""
    fig = Figure(figsize=(width, height), layout="constrained")
    axes = fig.subplots(rows, columns, **more)
    for one in getattr(axes, "flat", [axes]):
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(labelsize=9, colors=INK)
        one.title.set_fontsize(10.5)
        one.xaxis.label.set_size(9.5)
        one.yaxis.label.set_size(9.5)
    return fig, axes


def show(fig: Figure, caption: str) -> None:
    """Display a figure with its caption below; the caption is what a reader who cannot see the picture is told."""
    from IPython.display import Image, Markdown, display

    text = " ".join(caption.split())
    display(Image(data=_picture(fig), format="png", alt=text))
    display(Markdown(f"*{text}*"))


def _picture(fig: Figure) -> bytes:
    """A figure as PNG in as many colours as lines and letters need: a third of the size, for it is stored."""
    from PIL import Image  # comes with matplotlib

    drawn, small = io.BytesIO(), io.BytesIO()
    fig.savefig(drawn, format="png", dpi=_DPI, facecolor="white")
    few = Image.open(drawn).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(small, "png", optimize=True)
    return small.getvalue()


def marks(axes: Any, happened: Iterable[tuple[float, str]], *, top: float = 1.01) -> None:
    """Moments as dotted lines with what happened written above them, slanted so that near ones do not meet."""
    for at, what in happened:
        axes.axvline(at, color=INK, linewidth=0.9, linestyle=":", zorder=3)
        axes.text(
            at, top, what, transform=axes.get_xaxis_transform(), rotation=28, fontsize=8.5, color=INK,
            horizontalalignment="left", verticalalignment="bottom", rotation_mode="anchor",
        )  # fmt: skip


# --- who owns what


class Tenure(NamedTuple):
    """One owner's time with one thing."""

    what: int
    owner: str
    since: float
    until: float


def tenures(samples: Iterable[tuple[float, Mapping[int, str]]]) -> list[Tenure]:
    """Who owned each thing from when until when, of looks at who owns what now."""
    now: dict[int, Tenure] = {}
    over: list[Tenure] = []
    for at, owners in samples:
        for what in [*now]:
            held = now[what]._replace(until=at)
            if owners.get(what) == held.owner:
                now[what] = held
            else:
                over.append(held)
                del now[what]
        for what, owner in owners.items():
            if what not in now:
                now[what] = Tenure(what, owner, at, at)
    return sorted([*over, *now.values()], key=lambda tenure: (tenure.what, tenure.since))


def colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name, in order."""
    return {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(dict.fromkeys(names))}


def owners(axes: Any, held: Sequence[Tenure], names: Sequence[str]) -> None:
    """A timeline of owners: a row for each thing owned, a bar for each tenure; white is nobody."""
    look = colours(names)
    for tenure in held:
        number = names.index(tenure.owner)
        axes.barh(
            tenure.what, tenure.until - tenure.since, left=tenure.since, height=0.86, color=look[tenure.owner],
            hatch=HATCHES[number % len(HATCHES)], edgecolor="white", linewidth=0.0,
        )  # fmt: skip
    axes.set_ylim(max((tenure.what for tenure in held), default=0) + 0.6, -0.6)
    handles = [
        Patch(facecolor=look[name], hatch=HATCHES[number % len(HATCHES)], edgecolor="white", label=name)
        for number, name in enumerate(names)
    ]
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9)


# --- what lies in a log


class Piece(NamedTuple):
    """A stretch of a log: from where, how long, in which colour, and what is written on it."""

    start: float
    length: float
    colour: str
    text: str = ""
    hatch: str = ""


def strip(axes: Any, row: float, pieces: Iterable[Piece], *, height: float = 0.62, fontsize: float = 8.0) -> None:
    """A log as boxes in a row, to scale."""
    for piece in pieces:
        axes.add_patch(
            Rectangle(
                (piece.start, row - height / 2), piece.length, height, facecolor=piece.colour, edgecolor="white",
                linewidth=0.8, hatch=piece.hatch,
            )
        )  # fmt: skip
        if piece.text:
            axes.text(
                piece.start + piece.length / 2, row, piece.text, fontsize=fontsize, color=ink_on(piece.colour),
                horizontalalignment="center", verticalalignment="center",
            )  # fmt: skip


def legend(axes: Any, entries: Mapping[str, str], **more: Any) -> None:
    """Names beside their colours, right of the axes."""
    handles = [Patch(facecolor=colour, label=name) for name, colour in entries.items()]
    place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} | more
    axes.legend(handles=handles, frameon=False, fontsize=9, **place)


def ink_on(colour: str) -> str:
    """Black or white, whichever is read better on a colour."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else INK


# --- bytes


class Field(NamedTuple):
    """A field of a binary format: what it is called, how many bytes it has, and what they mean here."""

    name: str
    length: int
    meaning: str = ""


def hexdump(data: bytes, fields: Sequence[Field], *, width: int = 16) -> Figure:
    """Bytes in rows of sixteen, each field in a colour, beside the list of what they mean."""
    rows = -(-len(data) // width)
    fig, axes = figure(11.0, 0.27 * max(rows, len(fields)) + 0.4)
    field_of = [number for number, field in enumerate(fields) for _ in range(field.length)]
    for at, byte in enumerate(data):
        row, column = divmod(at, width)
        number = field_of[at] if at < len(field_of) else -1
        colour = PALETTE[number % len(PALETTE)] if number >= 0 else PALE
        x = column + (0.35 if column >= width // 2 else 0)
        axes.add_patch(Rectangle((x, row), 1, 0.92, facecolor=colour, alpha=0.85, linewidth=0))
        axes.text(
            x + 0.5, row + 0.48, f"{byte:02x}", family="monospace", fontsize=9, color=ink_on(colour),
            horizontalalignment="center", verticalalignment="center",
        )  # fmt: skip
        letter = chr(byte) if 32 <= byte < 127 else "·"
        axes.text(width + 1.2 + 0.62 * column, row + 0.48, letter, family="monospace", fontsize=9, color=INK,
                  verticalalignment="center")  # fmt: skip
    for row in range(rows):
        axes.text(-0.4, row + 0.48, f"{row * width:04x}", family="monospace", fontsize=9, color=GREY,
                  horizontalalignment="right", verticalalignment="center")  # fmt: skip
    left = width + 1.2 + 0.62 * width + 1.2
    start = 0
    for number, field in enumerate(fields):
        axes.add_patch(Rectangle((left, number), 0.9, 0.8, facecolor=PALETTE[number % len(PALETTE)], alpha=0.85))
        text = f"{start:>3}  {field.name}" + (f" = {field.meaning}" if field.meaning else "")
        axes.text(left + 1.3, number + 0.45, text, fontsize=9, color=INK, verticalalignment="center")
        start += field.length
    axes.set_xlim(-2.2, left + 15)
    axes.set_ylim(max(rows, len(fields)), -0.2)
    axes.axis("off")
    return fig
