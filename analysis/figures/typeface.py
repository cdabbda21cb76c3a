"""The figures' typeface: DejaVu Sans without what a PDF cannot use."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path

from fontTools.ttLib import TTFont
from matplotlib import font_manager

WHOLE, LIGHT = "DejaVu Sans", "DejaVu Sans without tables for layout"
_LAYOUT_TABLES = ("GSUB", "GPOS", "GDEF")
_FAMILY_NAMES = (1, 4, 16)  # the name table's numbers for a family and its full name


@cache
def families() -> list[str]:
    """Return the families to draw with, the light one first, after making it known to matplotlib.

    To embed a font, matplotlib cuts it down to a figure's letters, and three quarters of that time
    go into tables that only a layout engine reads. Without them an "ff" stays two letters, so that
    one subset does for a PDF; kerning stays. The light font is a temporary file.

    >>> families()[1]
    'DejaVu Sans'
    """
    folder = tempfile.TemporaryDirectory(prefix="cqk-typeface-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "light.ttf"
    with TTFont(font_manager.findfont(WHOLE), recalcTimestamp=False) as font:
        for table in _LAYOUT_TABLES:
            if table in font:
                del font[table]
        for record in font["name"].names:
            if record.nameID in _FAMILY_NAMES:
                record.string = LIGHT
        font.save(path)
    font_manager.fontManager.addfont(path)
    return [LIGHT, WHOLE]
