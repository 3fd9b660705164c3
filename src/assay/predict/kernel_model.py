"""Parameters of the kernel models: what each means, and between which values a fit may move it."""

from __future__ import annotations

from dataclasses import dataclass

#: Ways to cut a product, by the library that runs it: tile rows, tile columns, parts of k. "library": what
#: cuBLAS and its like choose from. "rows-128": 128 rows, as wide as fills the chip, k never split (DeepGEMM
#: and its kin). Both have as many entries, so that devices of both kinds stand in one array.
TILES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "library": (
        (256, 128, 1),
        (128, 256, 1),
        (128, 128, 1),
        (128, 64, 1),
        (64, 128, 1),
        (64, 64, 1),
        (128, 128, 2),
        (128, 128, 4),
        (128, 128, 8),
        (128, 64, 4),
        (64, 64, 8),
    ),
    "rows-128": tuple((128, columns, 1) for columns in (128, 112, 96, 80, 64, 56, 48, 40, 32, 24, 16)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmFit:
    """How one architecture multiplies matrices of one dtype.

    `tiles` names the family in `TILES`. `rate_frac` of the datasheet's peak is reached inside its largest
    tile; a smaller one loses (largest area/area)^`small_tile_loss`. `ramp_k` columns of k and `wave_s` are
    spent filling each wave, `launch_s` once, `split_s` on adding up a split k. `stream_frac` of the
    quantisation into whole waves is smoothed away (stream-k). `memory_frac` of the datasheet's bandwidth is
    reached, `l2_ratio` times it inside the L2, which keeps about `l2_bytes` between kernels. Where the rows
    make an odd number of tiles, tiles cannot share loads in pairs and load `unpaired` times as much.
    Compute and memory join as a p-norm with p = `join`. A kernel of t seconds that keeps the units busy
    slows by `throttle`·ln(1 + t/1 ms) (power). Quantising the left input in a kernel of its own moves
    `cast_bytes` per element and takes `cast_row_s` per row.
    """

    tiles: str
    rate_frac: float
    small_tile_loss: float
    ramp_k: float
    launch_s: float
    wave_s: float
    split_s: float
    stream_frac: float
    memory_frac: float
    join: float
    throttle: float
    l2_ratio: float
    l2_bytes: float
    unpaired: float = 1.0
    cast_bytes: float = 0.0
    cast_row_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionFit:
    """How one architecture runs fused causal attention.

    `rate_frac` of the bf16 peak at width 128, times `ratio_64` or `ratio_256` at those widths (between
    them, log-linear). Each block of `block` queries pays for `ramp` more keys than it sees.
    """

    rate_frac: float
    ratio_64: float
    ratio_256: float
    launch_s: float
    ramp: float
    stream_frac: float
    memory_frac: float
    throttle: float
    block: int
