"""A fabric drawn as SVG, what is alike folded, so that 4 and 4,096 nodes read alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from assay.catalog.messages import Texts
from assay.fabric.sizing import FabricSize
from assay.report.extras import load
from assay.units import show

WIDTH, _MARGIN, _BOX, _GAP, _ROW = 1080, 156, 40, 8, 118
#: The words of a fold need as much room.
_FOLD = 76
#: So many alike are drawn one by one; of more, the first two and the last.
_MOST = {"node": 4, "leaf": 8, "spine": 8, "core": 10, "pod": 3}
_COLOURS = (
    "--page:#fff;--ink:#1a1d21;--muted:#5c646e;--line:#c3c7c2;--accent:#2b5f92;--soft:#e7eef5;--fail:#b2281f"
)
_DARK = (
    "--page:#101316;--ink:#e4e7ea;--muted:#98a2ad;--line:#3d454d;--accent:#7fb3e6;--soft:#1c2936;"
    "--fail:#ff8b7e"
)
_STYLE = (
    f"svg.fabric{{{_COLOURS};font:12px system-ui,'Noto Sans','PingFang SC','Noto Sans CJK SC',sans-serif}}"
    f"@media(prefers-color-scheme:dark){{svg.fabric{{{_DARK}}}}}"
    ".fabric text{fill:var(--ink)}.fabric .quiet{fill:var(--muted)}"
    ".fabric rect.box{fill:var(--soft);stroke:var(--accent)}"
    ".fabric rect.bad{fill:none;stroke:var(--fail);stroke-width:2}"
    ".fabric rect.pod{fill:none;stroke:var(--line);stroke-dasharray:4 3}"
    ".fabric line{stroke:var(--accent);stroke-opacity:.35}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One drawn thing: which of its kind it is, None for the fold, and its middle."""

    index: int | None
    x: float
    y: float


def fabric_svg(size: FabricSize, texts: Texts, *, title: str, broken: Sequence[str] = ()) -> str:
    """One plane of the fabric as SVG text; `broken` names devices (`leaf3`, `spine1`) to mark."""
    draw = _Drawing(size, texts, {name.lower() for name in broken})
    body = list(draw.parts())
    words = texts.label("fabric.picture").format(title=title)
    return (
        '<svg class="fabric" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {WIDTH} {draw.height}" '
        f'width="{WIDTH}" height="{draw.height}" aria-label="{escape(words)}"><style>{_STYLE}</style>'
        f'<rect width="100%" height="100%" style="fill:var(--page)"/>'
        f'<text x="20" y="28" font-size="16" font-weight="600">{escape(title)}</text>'
        + "".join(body)
        + "</svg>\n"
    )


def fabric_page(
    svg: str, texts: Texts, *, title: str, rows: Sequence[tuple[str, str]], findings: Sequence[str]
) -> str:
    """One HTML page that opens offline: the picture, the counts as a table, the findings."""
    jinja2 = load("jinja2")
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("assay.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    lang = {"en": "en", "zh": "zh-Hans"}[texts.lang]
    page = env.get_template("fabric.html.j2")
    picture = load("markupsafe").Markup(svg)
    return str(page.render(svg=picture, title=title, rows=rows, findings=findings, lang=lang, t=texts.label))


class _Drawing:
    """Rows from the top: cores, then pods with their spines and leaves, and the nodes below."""

    def __init__(self, size: FabricSize, texts: Texts, broken: set[str]) -> None:
        self.size, self.texts, self.broken = size, texts, broken
        self.tiers = size.tiers
        self.pods = -(-(size.leaf // size.planes) // size.pod_leaves)
        self.top = 84
        self.height = self.top + self.tiers * _ROW + 92

    def parts(self) -> Iterator[str]:
        size = self.size
        cores = self._row("core", size.core // size.planes, _MARGIN, WIDTH - 20, self._y(3))
        yield from self._boxes("core", cores)
        shown = _folded(self.pods, _MOST["pod"])
        width = (WIDTH - _MARGIN - 20) / len(shown)
        for number, pod in enumerate(shown):
            left = _MARGIN + number * width
            if pod is None:
                yield self._fold(left + width / 2, self._y(1.5), self.pods - len(shown) + 1)
                continue
            yield from self._pod(pod, left, left + width - _GAP * 2, cores)
        yield from self._labels()

    def _pod(self, pod: int, left: float, right: float, cores: list[_Place]) -> Iterator[str]:
        size, planes = self.size, self.size.planes
        spine_each = size.spine // planes // self.pods
        leaf_each = min(size.pod_leaves, size.leaf // planes - pod * size.pod_leaves)
        spines = self._row("spine", spine_each, left, right, self._y(2), pod * spine_each)
        leaves = self._row("leaf", leaf_each, left, right, self._y(1), pod * size.pod_leaves)
        down = size.ports_down if self.tiers > 1 else size.nodes
        first = pod * size.pod_leaves // size.rails * down
        nodes = min(down * max(size.pod_leaves // size.rails, 1), size.nodes - first)
        below = self._row("node", nodes, left, right, self._y(0), first)
        for lower, upper, kind in (
            (below, leaves, "leaf"),
            (leaves, spines, "spine"),
            (spines, cores, "core"),
        ):
            yield from self._cables(lower, upper, kind)
        if self.pods > 1:
            y = self._y(2) - 34
            yield (
                f'<rect class="pod" x="{left - 6:.0f}" y="{y:.0f}" width="{right - left + 12:.0f}" '
                f'height="{self._y(0) - y + 34:.0f}" rx="8"/>'
            )
        for kind, places, count in (
            ("spine", spines, spine_each),
            ("leaf", leaves, leaf_each),
            ("node", below, nodes),
        ):
            yield from self._boxes(kind, places, count)

    def _row(
        self, kind: str, count: int, left: float, right: float, y: float, first: int = 0
    ) -> list[_Place]:
        room = max(3, int((right - left) // (_BOX + _GAP)))
        narrow = max(3, int((right - left) // _FOLD))
        shown = _folded(count, min(_MOST[kind], room if count <= room else narrow))
        step = (right - left) / max(len(shown), 1)
        return [
            _Place(index=None if at is None else first + at, x=left + (n + 0.5) * step, y=y)
            for n, at in enumerate(shown)
        ]

    def _boxes(self, kind: str, places: list[_Place], count: int | None = None) -> Iterator[str]:
        total = count if count is not None else getattr(self.size, kind) // self.size.planes
        for place in places:
            if place.index is None:
                yield self._fold(place.x, place.y, total - len(places) + 1)
                continue
            bad = " bad" if f"{kind}{place.index}" in self.broken else ""
            yield (
                f'<rect class="box{bad}" x="{place.x - _BOX / 2:.1f}" y="{place.y - 14:.0f}" width="{_BOX}" '
                f'height="28" rx="4"/><text x="{place.x:.1f}" y="{place.y + 4:.0f}" text-anchor="middle">'
                f"{place.index}</text>"
            )

    def _cables(self, lower: list[_Place], upper: list[_Place], kind: str) -> Iterator[str]:
        for below in lower:
            for above in upper:
                if (
                    below.index is None
                    or above.index is None
                    or not self._joined(below.index, above.index, kind)
                ):
                    continue
                yield (
                    f'<line x1="{below.x:.1f}" y1="{below.y - 14:.0f}" '
                    f'x2="{above.x:.1f}" y2="{above.y + 14:.0f}"/>'
                )

    def _joined(self, below: int, above: int, kind: str) -> bool:
        """Whether a cable joins two drawn things; a node reaches only the leaves of its own block."""
        if kind == "core":
            cores, half = self.size.core // self.size.planes, self.size.radix // 2
            return (above - below * half) % cores < half
        if kind != "leaf" or self.tiers == 1:
            return True
        return below // self.size.ports_down == above // self.size.rails

    def _fold(self, x: float, y: float, more: int) -> str:
        words = escape(self.texts.label("fabric.more").format(count=f"{more:,}"))
        return (
            f'<text class="quiet" x="{x:.1f}" y="{y - 4:.0f}" text-anchor="middle" font-size="16">⋯</text>'
            f'<text class="quiet" x="{x:.1f}" y="{y + 12:.0f}" text-anchor="middle" '
            f'font-size="11">{words}</text>'
        )

    def _labels(self) -> Iterator[str]:
        size, say = self.size, self.texts.label
        rate = show(size.port_Bps * 8, "bit/s")
        rows = [
            ("node", 0, size.nodes),
            ("leaf", 1, size.leaf),
            ("spine", 2, size.spine),
            ("core", 3, size.core),
        ]
        cables = {1: size.node_leaf_cables, 2: size.leaf_spine_cables, 3: size.spine_core_cables}
        for kind, tier, count in rows:
            if not count:
                continue
            y = self._y(tier)
            yield f'<text x="20" y="{y - 2:.0f}" font-weight="600">{escape(say("fabric." + kind))}</text>'
            yield f'<text class="quiet" x="20" y="{y + 14:.0f}">{count:,}</text>'
            if tier:
                words = say("fabric.cables_between").format(count=f"{cables[tier]:,}", rate=rate)
                place = f'x="20" y="{y + _ROW / 2 + 6:.0f}" font-size="11"'
                yield f'<text class="quiet" {place}>{escape(words)}</text>'
        for line, words in enumerate(self._facts(show)):
            yield f'<text class="quiet" x="20" y="{self.height - 30 + 16 * line}">{escape(words)}</text>'

    def _facts(self, shown: Callable[..., str]) -> list[str]:
        size, say = self.size, self.texts.label
        first = say("fabric.facts").format(
            bisection=shown(size.bisection_Bps, "B/s"),
            hops=size.most_hops,
            over=f"{size.oversubscription:g}:1",
            radix=size.radix,
        )
        more = [say("fabric.planes").format(planes=size.planes)] if size.planes > 1 else []
        if size.groups > 1:
            each = size.global_cables // (size.groups * (size.groups - 1) // 2)
            more.append(say("fabric.groups").format(groups=size.groups, cables=each))
        return [first, *more]

    def _y(self, tier: float) -> float:
        return self.top + (self.tiers - tier) * _ROW


def _folded(count: int, most: int) -> list[int | None]:
    """Indices to draw; None stands for all that are left out."""
    if count <= most:
        return list(range(count))
    return [*range(max(1, most - 2)), None, count - 1]
