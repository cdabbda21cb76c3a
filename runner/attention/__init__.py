"""Scoring methods, one file each; the file's name is the name a study uses.

>>> "standard" in names()
True
>>> load("standard").summary
'softmax of scaled dot products'
"""

from pathlib import Path

from ..variants import Folder

_folder = Folder("attention", __name__, Path(__file__).parent)
names = _folder.names
load = _folder.load
