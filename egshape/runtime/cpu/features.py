"""What the processor can do, as far as compiled code cares."""

from __future__ import annotations

from pathlib import Path

from egshape.runtime.abi.tiles import has_tiles

_NAMES = {
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512bf16": "avx512_bf16",
    "avxvnni": "avx_vnni",
    "amx-tile": "amx_tile",
    "amx-bf16": "amx_bf16",
    "amx-int8": "amx_int8",
    "lzcnt": "abm",
}
"""LLVM's names where the kernel has others."""
_CHECKED = frozenset(
    (
        "avx",
        "avx2",
        "fma",
        "f16c",
        "bmi1",
        "bmi2",
        "movbe",
        "popcnt",
        "avx512f",
        "avx512dq",
        "avx512bw",
        "avx512vl",
        "avx512cd",
        "avx512vbmi",
        "avx512ifma",
        "gfni",
        "vaes",
        "vpclmulqdq",
        *_NAMES,
    )
)
_SAME = {"bmi": "bmi1"}


def missing_features(wanted: str) -> list[str]:
    """Features of LLVM's list (``+avx2,-sse4a``) that this processor has not; none where the system does not tell."""
    on = {_SAME.get(each[1:], each[1:]) for each in wanted.split(",") if each.startswith("+")}
    here = _available()
    lacking = {_NAMES.get(each, each) for each in on & _CHECKED} - here if here else set()
    return sorted(lacking | ({"amx_tile"} if "amx-tile" in on and not has_tiles() else set()))


def _available() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    flags = next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
    return set(flags.partition(":")[2].split())
